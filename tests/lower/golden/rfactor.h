// Schedule of total, by Metol 0.1.0
// Halide: 21.0.0
// Target: x86-64-linux-avx2
// Algorithm: 0123456789abcdef
// Estimate: total [0, 5)
#pragma once

#include "Halide.h"

#include <vector>

inline void apply_schedule_rfactor(Halide::Pipeline pipeline) {
    std::vector<Halide::Internal::Function> outputs;
    for (const Halide::Func &output : pipeline.outputs()) {
        outputs.push_back(output.function());
    }
    const size_t count = Halide::Internal::build_environment(outputs).size();
    _halide_user_assert(count == 2)
        << "this schedule is for a pipeline of 2 Funcs, not " << count << "\n";
    Halide::Func source = pipeline.get_func(0);
    Halide::Func total = pipeline.get_func(1);
    Halide::Func total_intm;
    Halide::RVar taps_o("taps_o");
    Halide::RVar taps_i("taps_i");
    Halide::Var lane("lane");
    Halide::RVar taps_x = total.rvars(0)[0];
    Halide::RVar taps_y = total.rvars(0)[1];

    {  // total
        Halide::Var x = total.args()[0];
        total.update(0).split(taps_x, taps_o, taps_i, 8, Halide::TailStrategy::GuardWithIf);
        total_intm = total.update(0).rfactor(taps_i, lane);
        total.update(0).unroll(taps_i);
        total.update(1).vectorize(x, 4, Halide::TailStrategy::GuardWithIf);
    }

    {  // total_intm
        Halide::Var x = total_intm.args()[0];
        total_intm.compute_at(total, total.args()[0]).vectorize(lane);
        total_intm.update(0).reorder(lane, taps_o, taps_y, x).vectorize(lane);
    }

    {  // source
        source.compute_at(total_intm, taps_y);
    }
}
