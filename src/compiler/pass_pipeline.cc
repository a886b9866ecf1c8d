// SPDX-License-Identifier: Apache-2.0
// Reads pipelines of passes, and runs them.
#include "src/compiler/pass_pipeline.h"

#include <charconv>

#include <tessera/error.h>

namespace tessera::compiler {

class PassPipeline::Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Item> whole() {
    std::vector<Item> out;
    if (!text_.empty()) out = list();
    if (at_ < text_.size()) fail("a comma, or the end");
    return out;
  }

 private:
  // Groups contain groups, and texts of users may nest.
  static constexpr int kDeepest = 50;

  [[noreturn]] void fail(const std::string& what) const {
    throw ValueError("expected " + what + " at '" + std::string(text_.substr(at_)) + "' of '" +
                     std::string(text_) + "'");
  }
  bool accept(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  std::vector<Item> list() {
    if (++depth_ > kDeepest) fail("no more than 50 lists in each other");
    std::vector<Item> out;
    do {
      out.push_back(item());
    } while (accept(','));
    --depth_;
    return out;
  }
  std::vector<Item> list_in_parentheses() {
    if (!accept('(')) fail("'('");
    std::vector<Item> out = list();
    if (!accept(')')) fail("')'");
    return out;
  }

  Item item() {
    const std::size_t begin = at_;
    Item out;
    if (at_ < text_.size() && text_[at_] == '(') {
      out.body = list_in_parentheses();
    } else {
      const std::string_view call = word();
      if (call.substr(0, call.find('<')) == "repeat") {
        out.rounds = rounds(call);
        out.body = list_in_parentheses();
      } else if (const PassGroup* group = find_group(call)) {
        out.body = Parser(group->passes).whole();
      } else {
        out.pass = parse_pass(call);
      }
    }
    out.text = text_.substr(begin, at_ - begin);
    if (accept('?')) out.then = list_in_parentheses();
    return out;
  }

  /// A name, with its argument.
  std::string_view word() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           std::string_view(",()?").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
    if (at_ == begin) fail("the name of a pass");
    return text_.substr(begin, at_ - begin);
  }
  std::int64_t rounds(std::string_view call) const {
    std::int64_t out = 0;
    const std::size_t open = call.find('<');
    if (open != std::string_view::npos && call.back() == '>') {
      const char* const end = call.data() + call.size() - 1;
      const auto [stop, fault] = std::from_chars(call.data() + open + 1, end, out);
      if (fault == std::errc() && stop == end && out > 0) return out;
    }
    throw ValueError("'" + std::string(call) +
                     "' says how often at most as repeat<N>, with N of 1 or more");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

PassPipeline PassPipeline::parse(std::string_view text) {
  PassPipeline out;
  out.items_ = Parser(text).whole();
  return out;
}

std::optional<std::size_t> PassPipeline::run(ModulePtr& module, bool verify) const {
  return run(items_, module, verify);
}

std::optional<std::size_t> PassPipeline::run(const std::vector<Item>& items, ModulePtr& module,
                                             bool verify) {
  std::optional<std::size_t> all = 0;
  const auto add = [&](std::optional<std::size_t> more) {
    if (!more) all = std::nullopt;
    if (all) *all += *more;
  };
  for (const Item& item : items) {
    std::optional<std::size_t> changes = 0;
    for (std::int64_t round = 0; round < item.rounds; ++round) {
      const std::optional<std::size_t> more =
          item.pass ? run_pass(*item.pass, module, verify) : run(item.body, module, verify);
      if (!more && (item.rounds > 1 || !item.then.empty())) {
        throw ValueError("'" + item.text +
                         "' doesn't count what it changes, so that nothing can "
                         "depend on it");
      }
      changes = more && changes ? std::optional(*changes + *more) : std::nullopt;
      if (!more || *more == 0) break;
    }
    add(changes);
    if (!item.then.empty() && *changes > 0) add(run(item.then, module, verify));
  }
  return all;
}

}  // namespace tessera::compiler
