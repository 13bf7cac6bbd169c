// Sizes and scalar values that stand for what is only known at run time: from the caller, the pipeline, or a bound
// buffer.
#include <cctype>

#include "halide_reader.hpp"

namespace metol {
namespace {

using Halide::Expr;

// Of pixels whose channels lie side by side, each first, second and so on is loaded out of so many whole vectors; more
// channels are a row of their own.
constexpr int64_t kMostChannels = 4;
// Shorter rows are those of a small matrix, of which vectors take what is dense.
constexpr int64_t kLeastPixels = 8;

[[noreturn]] void missing(const std::string& message) {
    throw PipelineError(PipelineError::Kind::MissingEstimate, message);
}

[[noreturn]] void contradict(const std::string& message) {
    throw PipelineError(PipelineError::Kind::ContradictoryEstimate, message);
}

std::optional<int64_t> integer(const Expr& expr) {
    if (!expr.defined()) {
        return std::nullopt;
    }
    const Expr simple = hi::simplify(expr);
    if (const auto value = hi::as_const_int(simple)) {
        return *value;
    }
    const auto value = hi::as_const_uint(simple);
    return value ? std::optional<int64_t>(static_cast<int64_t>(*value)) : std::nullopt;
}

std::optional<double> number(const Expr& expr) {
    if (const auto value = integer(expr)) {
        return static_cast<double>(*value);
    }
    if (!expr.defined()) {
        return std::nullopt;
    }
    const auto value = hi::as_const_float(hi::simplify(expr));
    return value ? std::optional<double>(*value) : std::nullopt;
}

std::optional<Interval> to_interval(const Expr& min, const Expr& extent) {
    const auto size = integer(extent);
    if (!size) {
        return std::nullopt;
    }
    const int64_t first = integer(min).value_or(0);
    return Interval{first, first + *size - 1};
}

// What the parameter of a buffer says of one dimension: constraints bind, so they come before estimates.
std::optional<Interval> from_parameter(const Halide::Parameter& param, int d) {
    if (const auto found = to_interval(param.min_constraint(d), param.extent_constraint(d))) {
        return found;
    }
    return to_interval(param.min_constraint_estimate(d), param.extent_constraint_estimate(d));
}

std::optional<Interval> from_schedule(const hi::Function& func, int d) {
    std::optional<Interval> last;
    for (const hi::Bound& bound : func.schedule().estimates()) {
        if (bound.var == func.args()[static_cast<size_t>(d)]) {
            last = to_interval(bound.min, bound.extent);
        }
    }
    return last;
}

// Refuses an estimate that is empty, that no coordinate reaches, or that differs from what the pipeline demands of the
// buffer.
void check_estimate(const std::string& what, const Halide::Parameter& param, size_t d, const Interval& estimate) {
    const std::string where = what + " in dimension " + std::to_string(d);
    const auto check = [&](const std::string& field, const Expr& constraint, int64_t estimated) {
        const auto demanded = integer(constraint);
        if (demanded && *demanded != estimated) {
            contradict("Contradictory estimates: " + where + " has " + field + " " + std::to_string(*demanded) +
                       " by its constraint, and " + std::to_string(estimated) +
                       " by its estimate; drop the one that is wrong.");
        }
    };
    check("min", param.min_constraint(static_cast<int>(d)), estimate.min);
    check("extent", param.extent_constraint(static_cast<int>(d)), estimate.extent());
    if (estimate.extent() < 1) {
        contradict("The estimate of " + where + " has extent " + std::to_string(estimate.extent()) +
                   "; an estimate is of at least 1.");
    }
    constexpr int64_t kEnd = int64_t{1} << 31;
    if (estimate.min < -kEnd || estimate.max >= kEnd) {
        contradict("The estimate of " + where + " goes from " + std::to_string(estimate.min) + " to " +
                   std::to_string(estimate.max) + "; coordinates have 32 bits.");
    }
}

// "input.extent.1" of image "input" -> {"extent", 1}.
std::optional<std::pair<std::string, size_t>> parse_size(const std::string& variable, const std::string& image) {
    if (variable.size() <= image.size() + 1 || variable.compare(0, image.size(), image) != 0) {
        return std::nullopt;
    }
    const std::string rest = variable.substr(image.size() + 1);
    const size_t dot = rest.find('.');
    if (dot == std::string::npos || dot + 1 >= rest.size() ||
        !std::isdigit(static_cast<unsigned char>(rest[dot + 1]))) {
        return std::nullopt;
    }
    return std::pair(rest.substr(0, dot), static_cast<size_t>(std::stoul(rest.substr(dot + 1))));
}

std::optional<double> size_value(const std::string& field, size_t d, const std::vector<Interval>& shape) {
    if (d >= shape.size()) {
        return std::nullopt;
    }
    if (field == "min") {
        return static_cast<double>(shape[d].min);
    }
    if (field == "extent") {
        return static_cast<double>(shape[d].extent());
    }
    if (field != "stride") {
        return std::nullopt;
    }
    double stride = 1;
    for (size_t i = 0; i < d; i++) {
        stride *= static_cast<double>(shape[i].extent());
    }
    return stride;
}

}  // namespace

std::string ways_to_estimate(const std::string& name) {
    return "; call " + name + ".set_estimate(...), pass estimates={'" + name +
           "': ...} or, on the command line, --estimates FILE.json.";
}

std::string without_suffixes(const std::string& text) {
    std::string result;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] == '$' && i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]))) {
            while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1]))) {
                i++;
            }
        } else {
            result += text[i];
        }
    }
    return result;
}

const std::vector<Interval>* Estimates::user_region(const std::string& name) const {
    for (const std::string& key : {name, without_suffixes(name)}) {
        if (const auto it = user_.regions.find(key); it != user_.regions.end()) {
            return &it->second;
        }
    }
    return nullptr;
}

void Estimates::check_rank(const std::string& name, int dimensions) const {
    const std::vector<Interval>* given = user_region(name);
    if (given && given->size() != static_cast<size_t>(dimensions)) {
        contradict("The estimate of `" + without_suffixes(name) + "` has " + std::to_string(given->size()) +
                   " dimensions, and `" + without_suffixes(name) + "` has " + std::to_string(dimensions) +
                   "; give one (min, extent) a dimension.");
    }
}

std::vector<Interval> Estimates::of_output(const hi::Function& func) {
    const std::string name = without_suffixes(func.name());
    const std::vector<Interval>* given = user_region(func.name());
    check_rank(func.name(), func.dimensions());
    std::vector<Interval> shape;
    for (int d = 0; d < func.dimensions(); d++) {
        std::optional<Interval> found, own = from_schedule(func, d);
        if (given) {
            found = (*given)[static_cast<size_t>(d)];
        }
        for (const Halide::Parameter& param : func.output_buffers()) {
            found = found ? found : from_parameter(param, d);
        }
        found = found ? found : own;
        if (!found) {
            missing("Output Func `" + name + "` has no estimate in dimension " + std::to_string(d) + " (`" +
                    func.args()[static_cast<size_t>(d)] + "`)" + ways_to_estimate(name));
        }
        for (const Halide::Parameter& param : func.output_buffers()) {
            check_estimate("output `" + name + "`", param, static_cast<size_t>(d), given || !own ? *found : *own);
        }
        shape.push_back(*found);
    }
    for (const Halide::Parameter& param : func.output_buffers()) {
        shapes_[param.name()] = shape;
    }
    return shape;
}

std::vector<Interval> Estimates::of_extern_input(const hi::Function& func) {
    if (const std::vector<Interval>* given = user_region(func.name())) {
        check_rank(func.name(), func.dimensions());
        return *given;
    }
    std::vector<Interval> shape;
    for (int d = 0; d < func.dimensions(); d++) {
        const auto found = from_schedule(func, d);
        if (!found) {
            return {};
        }
        shape.push_back(*found);
    }
    return shape;
}

std::vector<Interval> Estimates::of_input(const Halide::Parameter& param) {
    if (const auto it = shapes_.find(param.name()); it != shapes_.end()) {
        return it->second;
    }
    const std::string name = without_suffixes(param.name());
    const std::vector<Interval>* given = user_region(param.name());
    check_rank(param.name(), param.dimensions());
    std::vector<Interval> shape;
    for (int d = 0; d < param.dimensions(); d++) {
        std::optional<Interval> found;
        if (given) {
            found = (*given)[static_cast<size_t>(d)];
        }
        const auto estimate = to_interval(param.min_constraint_estimate(d), param.extent_constraint_estimate(d));
        found = found ? found : estimate;
        found = found ? found : from_parameter(param, d);
        if (!found && param.buffer().defined()) {
            const Halide::Buffer<> buffer = param.buffer();
            found = Interval{buffer.dim(d).min(), buffer.dim(d).max()};
        }
        if (!found) {
            missing("Input `" + name + "` has no estimate in dimension " + std::to_string(d) + ways_to_estimate(name));
        }
        check_estimate("input `" + name + "`", param, static_cast<size_t>(d), *found);
        shape.push_back(*found);
    }
    shapes_[param.name()] = shape;
    return shape;
}

void Estimates::read_layout(const Halide::Parameter& param, Func& func) {
    if (!param.defined()) {
        return;
    }
    func.dense_dim = -1;
    for (int d = 0; d < param.dimensions() && func.dense_dim < 0; d++) {
        if (integer(param.stride_constraint(d)) == 1) {
            func.dense_dim = d;
        }
    }
    int64_t step = kMostChannels + 1;
    int next = 0;
    for (int d = 0; d < param.dimensions(); d++) {
        const std::optional<int64_t> stride = integer(param.stride_constraint(d));
        if (d != func.dense_dim && stride.value_or(step) < step) {
            step = *stride;
            next = d;
        }
    }
    const bool are_pixels = func.dense_dim >= 0 && step > 1 && step <= kMostChannels &&
                            func.estimate[static_cast<size_t>(next)].extent() >= kLeastPixels;
    func.interleaved = are_pixels ? static_cast<int32_t>(step) : 1;
    func.row_dim = are_pixels ? next : std::max(0, func.dense_dim);
}

std::vector<Interval> Estimates::of_image(const Halide::Buffer<>& image) {
    std::vector<Interval> shape;
    for (int d = 0; d < image.dimensions(); d++) {
        shape.push_back({image.dim(d).min(), image.dim(d).max()});
    }
    return shape;
}

void mark_sizes_read(const std::set<std::string>& images, const FuncIds& ids, std::vector<Func>& funcs) {
    for (const std::string& image : images) {
        if (const std::optional<int32_t> id = ids.find(image)) {
            funcs[static_cast<size_t>(*id)].is_size_read = true;
        }
    }
}

std::optional<double> Estimates::scalar(const Halide::Parameter& param) {
    const std::string name = without_suffixes(param.name());
    if (const auto it = scalars_.find(name); it != scalars_.end()) {
        return it->second.has_estimate ? std::optional(it->second.estimate) : std::nullopt;
    }
    std::optional<double> value;
    for (const std::string& key : {param.name(), name}) {
        if (const auto it = user_.scalars.find(key); !value && it != user_.scalars.end()) {
            value = it->second;
        }
    }
    value = value ? value : number(param.estimate());
    value = value ? value : number(param.default_value());
    if (!value && param.has_scalar_value()) {
        value = number(param.scalar_expr());
    }
    const auto least = number(param.min_value()), most = number(param.max_value());
    if (value && ((least && *value < *least) || (most && *value > *most))) {
        std::ostringstream text;
        text << "Contradictory estimates: parameter `" << name << "` is estimated as " << *value
             << ", outside of its own range; correct set_range(...) or the estimate.";
        contradict(text.str());
    }
    std::ostringstream type;
    type << param.type();
    scalars_[name] = {name, type.str(), value.value_or(0), value.has_value()};
    return value;
}

std::optional<double> Estimates::value(const hi::Variable& variable) {
    if (variable.param.defined() && !variable.param.is_buffer()) {
        return scalar(variable.param);
    }
    std::string image;
    std::vector<Interval> shape;
    if (variable.param.defined()) {
        image = variable.param.name();
        const auto it = shapes_.find(image);
        shape = it == shapes_.end() ? of_input(variable.param) : it->second;
    } else if (variable.image.defined()) {
        image = variable.image.name();
        shape = of_image(variable.image);
    } else {
        return std::nullopt;
    }
    const auto size = parse_size(variable.name, image);
    if (size) {
        sizes_read_.insert(image);
    }
    return size ? size_value(size->first, size->second, shape) : std::nullopt;
}

void Estimates::require(const hi::Variable& variable) const {
    if (!variable.param.defined() || variable.param.is_buffer()) {
        return;
    }
    const std::string name = without_suffixes(variable.param.name());
    missing("Parameter `" + name + "` has no estimate, and a size depends on it" + ways_to_estimate(name));
}

void Estimates::check_all_used(const std::vector<std::string>& known_names) const {
    std::set<std::string> known;
    for (const std::string& name : known_names) {
        known.insert(without_suffixes(name));
    }
    std::string list;
    for (const std::string& name : known) {
        list += (list.empty() ? "`" : ", `") + name + "`";
    }
    known.insert(known_names.begin(), known_names.end());
    const auto check = [&](const std::string& name) {
        if (!known.count(name)) {
            missing("The estimates name `" + name +
                    "`, which is no output, input or parameter of the pipeline; it has " + list + ".");
        }
    };
    for (const auto& [name, region] : user_.regions) {
        check(name);
        if (scalars_.count(without_suffixes(name))) {
            contradict("The estimate of `" + name + "` is a size, and `" + name + "` is a parameter; give a number.");
        }
    }
    for (const auto& [name, scalar] : user_.scalars) {
        check(name);
        if (!scalars_.count(without_suffixes(name))) {
            contradict("The estimate of `" + name + "` is a number, and `" + name +
                       "` is an image; give one (min, extent) a dimension.");
        }
    }
}

void restore_output_estimates(PyObject* pipeline) {
    for (const hi::Function& func : outputs_of(to_pipeline(pipeline))) {
        for (int d = 0; d < func.dimensions(); d++) {
            const auto own = from_schedule(func, d);
            for (Halide::Parameter param : func.output_buffers()) {
                if (own && !param.extent_constraint_estimate(d).defined()) {
                    param.set_min_constraint_estimate(d, static_cast<int32_t>(own->min));
                    param.set_extent_constraint_estimate(d, static_cast<int32_t>(own->extent()));
                }
            }
        }
    }
}

}  // namespace metol
