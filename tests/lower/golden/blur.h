// Schedule of blur_y, by Metol 0.1.0
// Halide: 21.0.0
// Target: x86-64-linux-avx2
// Algorithm: 0123456789abcdef
// Estimate: blur_y [0, 40) x [0, 20)
#pragma once

#include "Halide.h"

#include <vector>

inline void apply_schedule_blur(Halide::Pipeline pipeline) {
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
    Halide::Var x_o("x_o");
    Halide::Var x_i("x_i");
    Halide::Var y_o("y_o");
    Halide::Var y_i("y_i");

    {  // blur_y
        Halide::Var x = blur_y.args()[0];
        Halide::Var y = blur_y.args()[1];
        blur_y
            .compute_root()
            .split(x, x_o, x_i, 16, Halide::TailStrategy::GuardWithIf)
            .split(y, y_o, y_i, 4, Halide::TailStrategy::GuardWithIf)
            .reorder(x_i, y_i, x_o, y_o)
            .vectorize(x_i)
            .parallel(y_o);
    }

    {  // blur_x
        Halide::Var x = blur_x.args()[0];
        Halide::Var y = blur_x.args()[1];
        blur_x
            .store_in(Halide::MemoryType::Stack)
            .compute_at(blur_y, x_o)
            .reorder_storage(y, x)
            .vectorize(x, 8, Halide::TailStrategy::RoundUp);
    }

    {  // source
        Halide::Var x = source.args()[0];
        source
            .hoist_storage(blur_y, y_o)
            .compute_at(blur_x, blur_x.args()[1])
            .align_storage(x, 16)
            .unroll(x, 2, Halide::TailStrategy::GuardWithIf);
    }
}
