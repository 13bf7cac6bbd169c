#include "emulated_cuda/tokens.hpp"

#include <cctype>

#include "emulated_cuda/code.hpp"

namespace metol::emulated {

namespace {

// Opcodes, names of registers with their parts, and numbers are words.
bool is_in_word(char one) {
    return std::isalnum(static_cast<unsigned char>(one)) != 0 || one == '_' || one == '$' || one == '%' || one == '.';
}

}  // namespace

std::vector<Token> tokens_of(std::string_view ptx) {
    std::vector<Token> tokens;
    int32_t line = 1;
    size_t at = 0;
    const auto skip_to = [&](std::string_view end) {
        const size_t found = ptx.find(end, at + 1);
        if (found == std::string_view::npos) {
            throw EmulationError("what begins in line " + std::to_string(line) + " has no end");
        }
        const size_t begin = at;
        at = found + end.size();
        for (char one : ptx.substr(begin, at - begin)) {
            line += one == '\n' ? 1 : 0;
        }
        return ptx.substr(begin, at - begin);
    };
    while (at < ptx.size() && ptx[at] != '\0') {
        const std::string_view rest = ptx.substr(at);
        if (rest.starts_with("//")) {
            const size_t end = rest.find('\n');
            at = end == std::string_view::npos ? ptx.size() : at + end;
        } else if (rest.starts_with("/*")) {
            skip_to("*/");
        } else if (rest.front() == '"') {
            const int32_t begin = line;
            tokens.push_back({skip_to("\""), begin});
        } else if (std::isspace(static_cast<unsigned char>(rest.front())) != 0) {
            line += rest.front() == '\n' ? 1 : 0;
            at++;
        } else {
            size_t length = 0;
            while (length < rest.size() && is_in_word(rest[length])) {
                length++;
            }
            length = length == 0 ? 1 : length;
            tokens.push_back({rest.substr(0, length), line});
            at += length;
        }
    }
    return tokens;
}

}  // namespace metol::emulated
