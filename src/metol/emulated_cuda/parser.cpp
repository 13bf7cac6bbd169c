#include "emulated_cuda/parser.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "emulated_cuda/operations.hpp"
#include "emulated_cuda/tokens.hpp"

namespace metol::emulated {

namespace {

std::string quoted(std::string_view text) {
    return std::string("`").append(text).append("`");
}

int64_t rounded_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

// Walks over tokens; throws where another is expected.
class Cursor {
  public:
    explicit Cursor(std::string_view ptx) : tokens_(tokens_of(ptx)) {}

    bool is_at_end() const { return at_ == tokens_.size(); }
    std::string_view peek(size_t ahead = 0) const {
        return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : std::string_view();
    }
    int32_t line() const { return tokens_.empty() ? 0 : tokens_[std::min(at_, tokens_.size() - 1)].line; }
    std::string_view next() {
        if (is_at_end()) {
            throw EmulationError("the PTX ends too soon");
        }
        return tokens_[at_++].text;
    }
    bool skip(std::string_view text) {
        const bool is_there = !is_at_end() && peek() == text;
        at_ += is_there ? 1 : 0;
        return is_there;
    }
    void expect(std::string_view text) {
        if (!skip(text)) {
            fail(quoted(text) + " is expected, not " + quoted(peek()));
        }
    }
    void skip_line() {
        const int32_t line = this->line();
        while (!is_at_end() && this->line() == line) {
            at_++;
        }
    }
    void skip_to(std::string_view text) {
        while (next() != text) {
        }
    }
    // A declaration, or what stands in braces behind it.
    void skip_definition() {
        std::string_view word = next();
        while (word != "{" && word != ";") {
            word = next();
        }
        for (int depth = word == "{" ? 1 : 0; depth > 0;) {
            const std::string_view token = next();
            depth += token == "{" ? 1 : token == "}" ? -1 : 0;
        }
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw EmulationError("line " + std::to_string(line()) + ": " + what);
    }
    // A number: whole, or the bits of one that is not (PTX ISA, §4.5).
    uint64_t number() {
        const bool is_negative = skip("-");
        const std::string_view text = next();
        const std::string_view prefix = text.substr(0, 2);
        const bool is_float = prefix == "0f" || prefix == "0F" || prefix == "0d" || prefix == "0D";
        const bool is_hex = is_float || prefix == "0x" || prefix == "0X";
        std::string_view digits = is_hex ? text.substr(2) : text;
        digits.remove_suffix(digits.ends_with('U') ? 1 : 0);
        uint64_t value = 0;
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value, is_hex ? 16 : 10);
        if (error != std::errc() || end != digits.data() + digits.size()) {
            fail(quoted(text) + " is no number");
        }
        return is_negative ? ~value + 1 : value;
    }

  private:
    std::vector<Token> tokens_;
    size_t at_ = 0;
};

bool is_number(std::string_view token) {
    return token == "-" || (!token.empty() && token.front() >= '0' && token.front() <= '9');
}

// A variable, or a parameter: a type, a name, and as many of it as there are.
struct Declaration {
    std::string_view name;
    int64_t element_bytes = 0;
    int64_t bytes = 0;
    int64_t alignment = 1;
};

int64_t bytes_of(std::string_view type) {
    int bits = 0;
    std::from_chars(type.data() + 1, type.data() + type.size(), bits);
    return bits / 8;
}

Declaration declaration(Cursor& cursor) {
    Declaration one;
    int64_t asked = 0;
    while (cursor.peek().starts_with('.')) {
        const std::string_view word = cursor.next();
        if (word == ".align") {
            const auto alignment = static_cast<int64_t>(cursor.number());
            // After the type it says how what a pointer leads to is aligned.
            asked = one.element_bytes == 0 ? alignment : asked;
        } else if (type_of(word.substr(1))) {
            one.element_bytes = bytes_of(word.substr(1));
        }
    }
    one.name = cursor.next();
    one.bytes = one.element_bytes;
    while (cursor.skip("[")) {
        one.bytes *= cursor.peek() == "]" ? 0 : static_cast<int64_t>(cursor.number());
        cursor.expect("]");
    }
    one.alignment = std::max<int64_t>(1, std::max(asked, one.element_bytes));
    return one;
}

class KernelParser {
  public:
    KernelParser(Cursor& cursor, const std::map<std::string_view, int64_t>& shared, Module& module)
        : cursor_(cursor), module_(module), shared_(shared) {}

    Kernel parse(int64_t shared_bytes);

  private:
    struct Operand {
        std::vector<int32_t> registers;  // several for a tuple
        bool is_address = false;
        int64_t offset = 0;
    };

    void parse_parameters();
    void parse_statement();
    void parse_instruction();
    Operand parse_operand(std::string_view opcode, Instruction& instruction);
    Operand parse_address();
    int32_t register_of(std::string_view name);
    int32_t constant(uint64_t value);
    std::optional<uint64_t> address_of_symbol(const std::string& name);
    void place(Instruction& instruction, const std::vector<Operand>& operands, bool has_result) const;

    Cursor& cursor_;
    Module& module_;
    std::map<std::string_view, int64_t> shared_;  // offsets, by name
    std::map<std::string_view, int64_t> local_;
    std::map<std::string_view, int64_t> parameters_;
    std::set<std::string_view> declared_;
    std::map<std::string_view, int32_t> registers_;
    std::map<uint64_t, int32_t> constants_;
    std::map<std::string_view, int32_t> labels_;
    std::vector<std::pair<size_t, std::string_view>> jumps_;
    Kernel kernel_;
};

Kernel KernelParser::parse(int64_t shared_bytes) {
    kernel_.name = cursor_.next();
    kernel_.static_shared_bytes = shared_bytes;
    kernel_.registers.assign(kSpecials, 0);
    if (cursor_.skip("(")) {
        parse_parameters();
    }
    cursor_.skip_to("{");
    int depth = 1;
    while (depth > 0) {
        if (cursor_.skip("{")) {
            depth++;
        } else if (cursor_.skip("}")) {
            depth--;
        } else {
            parse_statement();
        }
    }
    Instruction end;
    decode_opcode("exit", end);
    kernel_.code.push_back(end);
    for (const auto& [position, label] : jumps_) {
        const auto found = labels_.find(label);
        if (found == labels_.end()) {
            throw EmulationError("there is no label " + quoted(label));
        }
        kernel_.code[position].target = found->second;
    }
    return std::move(kernel_);
}

void KernelParser::parse_parameters() {
    while (!cursor_.skip(")")) {
        const Declaration one = declaration(cursor_);
        const int64_t offset = rounded_up(kernel_.parameter_bytes, one.alignment);
        parameters_[one.name] = offset;
        kernel_.parameters.push_back({offset, one.bytes});
        kernel_.parameter_bytes = offset + one.bytes;
        cursor_.skip(",");
    }
}

void KernelParser::parse_statement() {
    const std::string_view word = cursor_.peek();
    if (word == ".local" || word == ".shared") {
        const Declaration one = declaration(cursor_);
        int64_t& total = word == ".local" ? kernel_.local_bytes : kernel_.static_shared_bytes;
        const int64_t offset = rounded_up(total, one.alignment);
        (word == ".local" ? local_ : shared_)[one.name] = offset;
        total = offset + one.bytes;
        cursor_.expect(";");
    } else if (word == ".reg") {
        // Of these any name may be; what is declared inside braces is used there alone, so that names may come again.
        for (std::string_view name = cursor_.next(); name != ";"; name = cursor_.next()) {
            declared_.insert(name);
        }
    } else if (word.starts_with('.')) {
        cursor_.skip_line();
    } else if (cursor_.peek(1) == ":") {
        labels_[cursor_.next()] = static_cast<int32_t>(kernel_.code.size());
        cursor_.expect(":");
    } else {
        parse_instruction();
    }
}

void KernelParser::parse_instruction() {
    Instruction instruction;
    instruction.line = cursor_.line();
    if (cursor_.skip("@")) {
        instruction.is_guard_negated = cursor_.skip("!");
        instruction.guard = register_of(cursor_.next());
    }
    const std::string_view opcode = cursor_.next();
    std::vector<Operand> operands;
    while (!cursor_.skip(";")) {
        operands.push_back(parse_operand(opcode, instruction));
        if (cursor_.peek() != ";") {
            cursor_.expect(",");
        }
    }
    try {
        place(instruction, operands, has_result(opcode));
        decode_opcode(opcode, instruction);
    } catch (const EmulationError& error) {
        throw EmulationError("line " + std::to_string(instruction.line) + ": " + error.what());
    }
    kernel_.code.push_back(instruction);
}

KernelParser::Operand KernelParser::parse_operand(std::string_view opcode, Instruction& instruction) {
    Operand operand;
    if (cursor_.skip("[")) {
        return parse_address();
    }
    if (cursor_.skip("{")) {
        while (!cursor_.skip("}")) {
            operand.registers.push_back(is_number(cursor_.peek()) ? constant(cursor_.number())
                                                                  : register_of(cursor_.next()));
            cursor_.skip(",");
        }
        instruction.count = static_cast<uint8_t>(operand.registers.size());
        return operand;
    }
    if (is_number(cursor_.peek())) {
        operand.registers.push_back(constant(cursor_.number()));
        return operand;
    }
    const std::string_view name = cursor_.next();
    if (opcode.starts_with("bra")) {
        jumps_.emplace_back(kernel_.code.size(), name);
        return operand;
    }
    if (const auto address = address_of_symbol(std::string(name))) {
        operand.registers.push_back(constant(*address));
        return operand;
    }
    operand.registers.push_back(register_of(name));
    // A second result beside the first.
    if (cursor_.skip("|")) {
        operand.registers.push_back(register_of(cursor_.next()));
    }
    return operand;
}

KernelParser::Operand KernelParser::parse_address() {
    Operand operand;
    operand.is_address = true;
    if (is_number(cursor_.peek())) {
        operand.registers.push_back(constant(cursor_.number()));
    } else {
        const std::string_view name = cursor_.next();
        const auto parameter = parameters_.find(name);
        const auto symbol = parameter == parameters_.end() ? address_of_symbol(std::string(name))
                                                           : std::optional(static_cast<uint64_t>(parameter->second));
        operand.registers.push_back(symbol ? constant(*symbol) : register_of(name));
    }
    if (cursor_.skip("+") || cursor_.peek() == "-") {
        operand.offset = static_cast<int64_t>(cursor_.number());
    }
    cursor_.expect("]");
    return operand;
}

std::optional<uint64_t> KernelParser::address_of_symbol(const std::string& name) {
    if (name == "WARP_SZ") {
        return kWarpThreads;
    }
    for (const auto* offsets : {&local_, &shared_}) {
        if (const auto found = offsets->find(name); found != offsets->end()) {
            return static_cast<uint64_t>(found->second);
        }
    }
    const auto variable = module_.variables.find(name);
    return variable == module_.variables.end() ? std::nullopt
                                               : std::optional(reinterpret_cast<uint64_t>(variable->second.data()));
}

int32_t KernelParser::register_of(std::string_view name) {
    static const std::map<std::string_view, int32_t> kSpecialNames = {
        {"%tid.x", kTid},         {"%tid.y", kTid + 1},   {"%tid.z", kTid + 2},       {"%ntid.x", kNtid},
        {"%ntid.y", kNtid + 1},   {"%ntid.z", kNtid + 2}, {"%ctaid.x", kCtaid},       {"%ctaid.y", kCtaid + 1},
        {"%ctaid.z", kCtaid + 2}, {"%nctaid.x", kNctaid}, {"%nctaid.y", kNctaid + 1}, {"%nctaid.z", kNctaid + 2},
        {"%laneid", kLane},       {"%warpid", kWarp},
    };
    if (const auto special = kSpecialNames.find(name); special != kSpecialNames.end()) {
        return special->second;
    }
    // `.reg .b32 %r<9>` declares %r0 to %r8.
    const std::string_view family = name.substr(0, name.find_last_not_of("0123456789") + 1);
    if (name != "_" && !declared_.contains(name) && !declared_.contains(family)) {
        cursor_.fail(quoted(name) + " is not known");
    }
    const auto [found, is_new] = registers_.try_emplace(name, static_cast<int32_t>(kernel_.registers.size()));
    if (is_new) {
        kernel_.registers.push_back(0);
    }
    return found->second;
}

int32_t KernelParser::constant(uint64_t value) {
    const auto [found, is_new] = constants_.try_emplace(value, static_cast<int32_t>(kernel_.registers.size()));
    if (is_new) {
        kernel_.registers.push_back(value);
    }
    return found->second;
}

void KernelParser::place(Instruction& instruction, const std::vector<Operand>& operands, bool has_result) const {
    size_t read = 0;
    for (size_t i = 0; i < operands.size(); i++) {
        const Operand& operand = operands[i];
        if (operand.is_address) {
            instruction.address = operand.registers.front();
            instruction.offset = operand.offset;
            continue;
        }
        const bool is_result = has_result && i == 0;
        size_t written = 0;
        for (int32_t one : operand.registers) {
            size_t& used = is_result ? written : read;
            if (used == instruction.in.size()) {
                throw EmulationError("it has too many operands");
            }
            (is_result ? instruction.out : instruction.in)[used++] = one;
        }
    }
}

// A variable of a module, with what it starts with.
void parse_variable(Cursor& cursor, Module& module) {
    const Declaration one = declaration(cursor);
    std::vector<uint8_t>& bytes = module.variables[std::string(one.name)];
    bytes.assign(static_cast<size_t>(one.bytes), 0);
    if (cursor.skip("=")) {
        const bool is_list = cursor.skip("{");
        size_t at = 0;
        do {
            const uint64_t value = cursor.number();
            if (at + static_cast<size_t>(one.element_bytes) > bytes.size()) {
                cursor.fail(quoted(one.name) + " has too many elements");
            }
            std::memcpy(bytes.data() + at, &value, static_cast<size_t>(one.element_bytes));
            at += static_cast<size_t>(one.element_bytes);
        } while (cursor.skip(","));
        if (is_list) {
            cursor.expect("}");
        }
    }
    cursor.expect(";");
}

}  // namespace

Module parse_module(std::string_view ptx) {
    Cursor cursor(ptx);
    Module module;
    std::map<std::string_view, int64_t> shared;
    int64_t shared_bytes = 0;
    while (!cursor.is_at_end()) {
        const std::string_view word = cursor.peek();
        if (word == ".visible" || word == ".extern" || word == ".weak" || word == ".common") {
            cursor.next();
        } else if (word == ".entry") {
            cursor.next();
            Kernel kernel = KernelParser(cursor, shared, module).parse(shared_bytes);
            module.kernels[kernel.name] = std::move(kernel);
        } else if (word == ".func" || word == ".section") {
            cursor.skip_definition();
        } else if (word == ".global" || word == ".const") {
            parse_variable(cursor, module);
        } else if (word == ".shared") {
            const Declaration one = declaration(cursor);
            shared[one.name] = rounded_up(shared_bytes, one.alignment);
            shared_bytes = shared[one.name] + one.bytes;
            cursor.expect(";");
        } else {
            cursor.skip_line();
        }
    }
    return module;
}

}  // namespace metol::emulated
