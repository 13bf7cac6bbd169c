// Schedule of blur_y, by Metol 0.1.0
// Halide: 21.0.0
// Target: x86-64-linux-avx2
// Algorithm: 0123456789abcdef
// Estimate: blur_y [0, 40) x [0, 20)
#pragma once

#include "Halide.h"

#include <vector>

inline void apply_schedule_staged(Halide::Pipeline pipeline) {
    std::vector<Halide::Internal::Function> outputs;
    for (const Halide::Func &output : pipeline.outputs()) {
        outputs.push_back(output.function());
    }
    const size_t count = Halide::Internal::build_environment(outputs).size();
    _halide_user_assert(count == 3)
        << "this schedule is for a pipeline of 3 Funcs, not " << count << "\n";
    Halide::Func source = pipeline.get_func(0);
    Halide::Func blur_x = pipeline.get_func(1);
    Halide::Func blur_y = pipeline.get_func(2);
    Halide::Func blur_x_in_blur_y;
    Halide::Func source_in_blur_x;
    Halide::Var x_o("x_o");
    Halide::Var x_i("x_i");

    {  // blur_x
        blur_x_in_blur_y = blur_x.in(blur_y);
    }

    {  // source
        source_in_blur_x = source.in(blur_x);
    }

    {  // blur_y
        Halide::Var x = blur_y.args()[0];
        Halide::Var y = blur_y.args()[1];
        blur_y.split(x, x_o, x_i, 16, Halide::TailStrategy::GuardWithIf).vectorize(x_i).parallel(y);
    }

    {  // blur_x_in_blur_y
        Halide::Var x = blur_x_in_blur_y.args()[0];
        Halide::Var y = blur_x_in_blur_y.args()[1];
        blur_x_in_blur_y
            .compute_at(blur_y, x_o)
            .reorder_storage(y, x)
            .split(x, x_o, x_i, 8, Halide::TailStrategy::RoundUp)
            .vectorize(x_i);
    }

    {  // blur_x
        blur_x.compute_root();
    }

    {  // source_in_blur_x
        Halide::Var x = source_in_blur_x.args()[0];
        source_in_blur_x
            .compute_at(blur_x, blur_x.args()[1])
            .unroll(x, 2, Halide::TailStrategy::GuardWithIf);
    }

    {  // source
        source.compute_root();
    }
}
