// The learned part of the cost model: by how much the coefficient of each cost term is more or less than the analytical
// model says.
//
// Enters: the feature row of a Stage, the histogram of its operations, analytical coefficients. Leave: coefficients.
// Source: Adams et al. 2019, §4.2 and figure 4 (two heads, log-transformed features); what it predicts is our own.
#pragma once

#include <span>
#include <vector>

namespace metol {

// A layer: outputs = weights * inputs + biases.
struct Layer {
    int inputs = 0;
    int outputs = 0;
    std::vector<float> weights;  // [inputs, outputs]
    std::vector<float> biases;   // [outputs]
};

class Network {
  public:
    // `schedule` takes log(1 + features), `algorithm` log(1 + operations), and `gains`, without biases of their own the
    // rectified outputs of the one and of the other, in this order. `units`, [terms], are the seconds of a unit of a
    // term that the analytical model does not know, and 0 for the others. Throws std::invalid_argument where sizes
    // differ.
    Network(Layer schedule, Layer algorithm, Layer gains, std::vector<double> units);

    size_t term_count() const { return units_.size(); }
    size_t feature_count() const { return static_cast<size_t>(schedule_.inputs); }

    // [terms] what the operations of a Stage add to every row of it.
    std::vector<float> stage_part(std::span<const float> op_histogram) const;
    // Multiplies the analytical coefficients of a row of a Stage, and fills in those of the terms that have a unit.
    void apply(std::span<const float> row, std::span<const float> stage_part, std::span<double> coefficients) const;

  private:
    Layer schedule_;
    Layer algorithm_;
    Layer gains_;
    std::vector<double> units_;
};

}  // namespace metol
