// Schedule of blur_y, by Metol 0.1.0
// Halide: 21.0.0
// Target: x86-64-linux-avx2
// Algorithm: 0123456789abcdef
// Estimate: blur_y [0, 40) x [0, 20)
#pragma once

#include "Halide.h"

#include <vector>

inline void apply_schedule_specialized(Halide::Pipeline pipeline) {
    std::vector<Halide::Internal::Function> outputs;
    for (const Halide::Func &output : pipeline.outputs()) {
        outputs.push_back(output.function());
    }
    const size_t count = Halide::Internal::build_environment(outputs).size();
    _halide_user_assert(count == 3)
        << "this schedule is for a pipeline of 3 Funcs, not " << count << "\n";
    Halide::Func blur_x = pipeline.get_func(1);
    Halide::Func blur_y = pipeline.get_func(2);
    Halide::Var x_o("x_o");
    Halide::Var x_i("x_i");
    Halide::Var y_o("y_o");
    Halide::Var y_i("y_i");

    {  // blur_y
        Halide::Var x = blur_y.args()[0];
        Halide::Var y = blur_y.args()[1];
        blur_y.split(x, x_o, x_i, 8, Halide::TailStrategy::GuardWithIf);
        Halide::Stage blur_y_branch_0 = blur_y.specialize(
            blur_y.output_buffer().dim(0).extent() >= 8 && blur_y.output_buffer().dim(1).extent() >= 4
        );
        blur_y_branch_0.split(y, y_o, y_i, 4, Halide::TailStrategy::ShiftInwards);
        Halide::Stage blur_y_branch_0_0 = blur_y_branch_0.specialize(
            blur_y.output_buffer().dim(0).extent() >= 32
        );
        blur_y_branch_0_0.vectorize(x_i);
        blur_y_branch_0.unroll(y_i);
        Halide::Stage blur_y_branch_1 = blur_y.specialize(
            blur_y.output_buffer().dim(1).extent() >= 2
        );
        blur_y_branch_1.vectorize(x_i).never_partition(x_o);
        blur_y.parallel(y).never_partition(x_o, y);
    }

    {  // blur_x
        Halide::Var x = blur_x.args()[0];
        blur_x.compute_at(blur_y, x_o);
        Halide::Stage blur_x_branch_0 = blur_x.specialize(
            blur_y.output_buffer().dim(0).extent() >= 16
        );
        blur_x_branch_0.vectorize(x, 8, Halide::TailStrategy::RoundUp);
    }
}
