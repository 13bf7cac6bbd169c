#include "launch_reader.hpp"

#include <algorithm>
#include <set>

#include "evaluator.hpp"

namespace metol {

namespace {

// Functions of Halide's runtime that launch a kernel. Their arguments are a handle, the name of the kernel, three
// extents of the grid, three of a block, the bytes of shared memory, and what the kernel is given.
const std::set<std::string> kLaunchers = {"halide_cuda_run", "halide_opencl_run"};
constexpr size_t kName = 1;
constexpr size_t kBlocks = 2;
constexpr size_t kThreads = 5;
constexpr size_t kSharedBytes = 8;

// What there is in a piece of code.
class Contents : public hi::IRVisitor {
  public:
    Contents(const hi::Stmt& code, const Evaluator& values) : values_(values) { code.accept(this); }
    bool has_launch = false;
    std::set<std::string> cells;  // that it stores to

  private:
    using hi::IRVisitor::visit;
    void visit(const hi::Call* op) override {
        has_launch = has_launch || kLaunchers.count(op->name) > 0;
        hi::IRVisitor::visit(op);
    }
    void visit(const hi::Store* op) override {
        if (values_.is_cell(op->name)) {
            cells.insert(op->name);
        }
        hi::IRVisitor::visit(op);
    }
    const Evaluator& values_;
};

// Goes through the code of the host. Where blocks need shared memory by their place, Halide reckons out the most that
// any needs in loops before the launch, and so does this; all other loops are of no interest, but for launches in them.
class LaunchReader : public hi::IRVisitor {
  public:
    LaunchReader(const BufferRegions& regions, const std::map<std::string, double>& scalars)
        : values_(regions, scalars) {}
    std::vector<KernelLaunch> launches;

  private:
    using hi::IRVisitor::visit;

    // Steps that are gone through to reckon out the shared memory of all blocks, at most.
    static constexpr int64_t kMostSteps = 4'000'000;

    void visit(const hi::LetStmt* op) override {
        op->value.accept(this);
        values_.let(op, [&] { op->body.accept(this); });
    }

    void visit(const hi::Let* op) override {
        op->value.accept(this);
        values_.let(op, [&] { op->body.accept(this); });
    }

    void visit(const hi::Allocate* op) override {
        if (op->constant_allocation_size() == 1) {
            values_.add_cell(op->name);
        }
        hi::IRVisitor::visit(op);
    }

    void visit(const hi::Store* op) override {
        if (values_.is_cell(op->name)) {
            values_.store(op->name, ++steps_ > kMostSteps ? std::nullopt : values_.value(op->value));
        }
    }

    void visit(const hi::For* op) override {
        const Contents contents(op->body, values_);
        if (contents.has_launch) {
            op->body.accept(this);
            return;
        }
        const Number first = values_.value(op->min);
        const Number count = values_.value(op->extent);
        if (contents.cells.empty()) {
            return;
        }
        if (!first || !count) {
            forget(contents);
            return;
        }
        for (int64_t i = 0; i < *count && steps_ <= kMostSteps; i++) {
            values_.bind(op->name, *first + i, [&] { op->body.accept(this); });
        }
    }

    // Either way may be taken to a launch; a cell has one value.
    void visit(const hi::IfThenElse* op) override {
        const Number is_true = values_.value(op->condition);
        for (const auto& [code, is_taken] : {std::pair(op->then_case, 1), std::pair(op->else_case, 0)}) {
            if (!code.defined()) {
                continue;
            }
            const Contents contents(code, values_);
            const bool is_known_way = is_true && (*is_true != 0) == (is_taken != 0);
            if (contents.has_launch || is_known_way) {
                const bool was_reached = is_reached_;
                is_reached_ = was_reached && (!is_true || is_known_way);
                code.accept(this);
                is_reached_ = was_reached;
            } else if (!is_true) {
                forget(contents);
            }
        }
    }

    void visit(const hi::Call* op) override {
        if (!kLaunchers.count(op->name)) {
            hi::IRVisitor::visit(op);
            return;
        }
        const auto* name = op->args.size() > kSharedBytes ? op->args[kName].as<hi::StringImm>() : nullptr;
        if (!name) {
            throw PipelineError(PipelineError::Kind::Extraction,
                                "Halide launches kernels in another way than version 21 does: " + op->name + ".");
        }
        KernelLaunch launch;
        launch.kernel = name->value;
        launch.is_taken = is_reached_;
        for (size_t d = 0; d < launch.blocks.size(); d++) {
            launch.blocks[d] = values_.value(op->args[kBlocks + d]);
            launch.threads[d] = values_.value(op->args[kThreads + d]);
        }
        launch.shared_bytes = values_.value(op->args[kSharedBytes]);
        launches.push_back(launch);
    }

    void forget(const Contents& contents) {
        for (const std::string& cell : contents.cells) {
            values_.store(cell, std::nullopt);
        }
    }

    Evaluator values_;
    int64_t steps_ = 0;
    bool is_reached_ = true;  // as far as is known
};

// A kernel is named after its outermost loop, and a loop after its Stage: "f$2.s1.x" -> "_kernel_f__2_s1_x", or
// "_kernel_f_2_s1_x__1" where the process has had a kernel of the first name. Of two Stages that could be meant, as
// those of `f` and `f_s0`, it is the one with the longer name.
void find_stage(KernelLaunch& launch, const std::vector<hi::Function>& funcs) {
    size_t longest = 0;
    for (const hi::Function& func : funcs) {
        std::string plain = func.name();
        std::replace(plain.begin(), plain.end(), '$', '_');
        for (int32_t stage = 0; stage <= static_cast<int32_t>(func.updates().size()); stage++) {
            const std::string end = ".s" + std::to_string(stage) + ".";
            for (const std::string& name : {func.name(), plain}) {
                const std::string prefix = hi::c_print_name("kernel_" + name + end);
                if (prefix.size() > longest && hi::starts_with(launch.kernel, prefix)) {
                    longest = prefix.size();
                    launch.func = func.name();
                    launch.stage = stage;
                }
            }
        }
    }
}

}  // namespace

std::vector<KernelLaunch> read_launches(const std::vector<hi::Stmt>& code, const std::vector<hi::Function>& funcs,
                                        const BufferRegions& regions, const std::map<std::string, double>& scalars) {
    LaunchReader reader(regions, scalars);
    for (const hi::Stmt& body : code) {
        body.accept(&reader);
    }
    for (KernelLaunch& launch : reader.launches) {
        find_stage(launch, funcs);
    }
    return reader.launches;
}

}  // namespace metol
