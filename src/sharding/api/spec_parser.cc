// SPDX-License-Identifier: Apache-2.0
// Reads PartitionSpecs from text.
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tessera/partition_spec.h>

namespace tessera {
namespace {

class SpecParser {
 public:
  SpecParser(const std::string& text, Location location) : text_(text), location_(location) {}

  PartitionSpec parse() {
    skip();
    std::string name;
    while (at_ < text_.size() && std::isalpha(static_cast<unsigned char>(text_[at_]))) {
      name += text_[at_++];
    }
    if (!name.empty() && name != "P" && name != "PartitionSpec") fail("expected P(...)");
    expect('(');
    std::vector<SpecEntry> entries;
    std::vector<std::string> unreduced, reduced;
    std::optional<UnreducedKind> kind;
    while (!take(')')) {
      if (take_word("unreduced_kind")) {
        kind = kind_of_axes();
      } else if (take_word("unreduced")) {
        unreduced = set_of_axes();
      } else if (take_word("reduced")) {
        reduced = set_of_axes();
      } else if (take('(')) {
        std::vector<std::string> axes;
        while (!take(')')) {
          axes.push_back(quoted());
          if (!take(',')) {
            expect(')');
            break;
          }
        }
        entries.emplace_back(axes);
      } else if (take_word("None")) {
        entries.emplace_back(nullptr);
      } else if (take_word("UNCONSTRAINED")) {
        entries.emplace_back(UNCONSTRAINED);
      } else {
        entries.emplace_back(quoted());
      }
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    skip();
    if (at_ != text_.size()) fail("text after the spec");
    PartitionSpec out = PartitionSpec::from_entries(entries);
    out = kind ? out.with_unreduced(std::move(unreduced), *kind, location_)
               : out.with_unreduced(std::move(unreduced), location_);
    return out.with_reduced(std::move(reduced), location_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    constexpr std::size_t kShown = 200;
    const std::string shown = text_.size() > kShown ? text_.substr(0, kShown) + "..." : text_;
    throw ParseError("spec '" + shown + "', character " + std::to_string(at_ + 1) + ": " + what,
                     location_);
  }
  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    skip();
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }
  /// =max
  UnreducedKind kind_of_axes() {
    expect('=');
    for (const auto kind : {UnreducedKind::sum, UnreducedKind::max, UnreducedKind::min}) {
      if (take_word(to_string(kind))) return kind;
    }
    fail("expected sum, max or min");
  }
  /// ={"x", "y"}
  std::vector<std::string> set_of_axes() {
    expect('=');
    expect('{');
    std::vector<std::string> out;
    while (!take('}')) {
      out.push_back(quoted());
      if (take(',')) continue;
      expect('}');
      break;
    }
    return out;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected '") + c + "'");
  }
  std::string quoted() {
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) {
      fail("expected None, a quoted axis or a list of them");
    }
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string::npos) fail("a quote is not closed");
    std::string out = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    skip();
    return out;
  }

  const std::string& text_;
  Location location_;
  std::size_t at_ = 0;
};

}  // namespace

PartitionSpec PartitionSpec::parse(const std::string& text, Location location) {
  return SpecParser(text, location).parse();
}

}  // namespace tessera
