// SPDX-License-Identifier: Apache-2.0
// Visitors over trees of arrays: leaves, paths, signatures.
#include <tessera/tree.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>

#include <tessera/detail/type_key.h>

#include "src/base/files/plain_numbers.h"

namespace tessera::internal {

namespace {

/// The exact value as text; NaNs by their bits.
template <class T>
std::string exact_text(T v) {
  if (!std::isnan(v)) return hexadecimal_text(v);
  char text[64];
  // 80-bit floats have padding bytes.
  constexpr std::size_t bytes = std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);
  unsigned char bits[sizeof(T)];
  std::memcpy(bits, &v, sizeof(T));
  std::string out = "nan:";
  for (std::size_t i = bytes; i-- > 0;) {
    std::snprintf(text, sizeof text, "%02x", unsigned(bits[i]));
    out += text;
  }
  return out;
}

class TextKeeper : public TreeVisitor {
 public:
  void leaf(Array&) override {}
  void static_view(std::string_view& text) override { text = kept_text(text); }
  void static_view(const char*& text) override { text = kept_text(text); }
};

class Collector : public TreeVisitor {
 public:
  void leaf(Array& a) override { leaves.push_back(a); }
  std::vector<Array> leaves;
};

class Assigner : public TreeVisitor {
 public:
  explicit Assigner(const std::vector<Array>& leaves) : leaves_(leaves) {}
  void leaf(Array& a) override {
    if (next_ < leaves_.size()) a = leaves_[next_];
    ++next_;
  }
  std::size_t count() const { return next_; }

 private:
  const std::vector<Array>& leaves_;
  std::size_t next_ = 0;
};

class Signature : public TreeVisitor {
 public:
  void begin(Node node, std::size_t n) override {
    text += char(node);
    text += std::to_string(n);
    text += ':';
  }
  void key(std::string_view k, Node) override {
    text += k;
    text += ':';
  }
  void end() override { text += ']'; }
  void leaf(Array&) override { text += '*'; }
  void none() override { text += '-'; }
  void alternative(std::size_t i) override { text += '|' + std::to_string(i) + ':'; }
  void static_value(const std::string& v) override {
    text += '=';
    text += v;
    text += ';';
  }
  std::string text;
};

class Paths : public TreeVisitor {
 public:
  void begin(Node, std::size_t) override { stack_.emplace_back(); }
  void key(std::size_t i) override { stack_.back() = "[" + std::to_string(i) + "]"; }
  void key(std::string_view k, Node node) override {
    stack_.back() = node == Node::map ? "[" + std::string(k) + "]" : "." + std::string(k);
  }
  void end() override { stack_.pop_back(); }
  void leaf(Array&) override {
    std::string path;
    for (const std::string& part : stack_) path += part;
    paths.push_back(std::move(path));
  }
  std::vector<std::string> paths;

 private:
  std::vector<std::string> stack_;
};

}  // namespace

std::string TreeVisitor::quoted(const char* text) { return static_text(text); }
std::string TreeVisitor::quoted(std::string_view text) { return string_text(text); }

namespace {
std::recursive_mutex& static_values() {
  static auto& mutex = *new std::recursive_mutex;
  return mutex;
}
}  // namespace

StaticValuesLock::StaticValuesLock() { static_values().lock(); }
StaticValuesLock::~StaticValuesLock() { static_values().unlock(); }

std::string float_text(float v) { return exact_text(v); }
std::string float_text(double v) { return exact_text(v); }
std::string float_text(long double v) { return exact_text(v); }
std::string string_text(std::string_view v) {
  std::string out = "'";
  for (char c : v) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

namespace {

[[noreturn]] void no_static_value(std::string_view text, const char* what) {
  throw ValueError("the static value " + std::string(text) + " is no " + what);
}

/// The exact value of what exact_text prints.
template <class T>
void exact_value(std::string_view text, T& value) {
  if (text.substr(0, 4) == "nan:") {
    const std::string_view digits = text.substr(4);
    constexpr std::size_t bytes = std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);
    if (digits.size() != 2 * bytes) no_static_value(text, "number of this type");
    unsigned char bits[sizeof(T)] = {};
    for (std::size_t i = 0; i < bytes; ++i) {
      const char* at = digits.data() + 2 * (bytes - 1 - i);
      if (std::from_chars(at, at + 2, bits[i], 16).ptr != at + 2) no_static_value(text, "number");
    }
    std::memcpy(&value, bits, sizeof(T));
    return;
  }
  // Checkpoints of earlier versions have the point of the locale in which they were saved.
  std::string copy(text);
  std::replace(copy.begin(), copy.end(), ',', '.');
  char* end = nullptr;
  const long double read = read_long_double(copy.c_str(), &end);
  if (copy.empty() || end != copy.c_str() + copy.size()) no_static_value(text, "number");
  value = static_cast<T>(read);
  if (!std::isinf(read) && static_cast<long double>(value) != read) {
    no_static_value(text, "number of this type");
  }
}

}  // namespace

long long integer_of_static(std::string_view text, long long least, long long most) {
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) no_static_value(text, "integer");
  if (value < least || value > most) no_static_value(text, "integer of this type");
  return value;
}
unsigned long long natural_of_static(std::string_view text, unsigned long long most) {
  unsigned long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) no_static_value(text, "integer");
  if (value > most) no_static_value(text, "integer of this type");
  return value;
}
void float_of_static(std::string_view text, float& value) { exact_value(text, value); }
void float_of_static(std::string_view text, double& value) { exact_value(text, value); }
void float_of_static(std::string_view text, long double& value) { exact_value(text, value); }
std::string string_of_static(std::string_view text) {
  if (text.size() < 2 || text.front() != '\'' || text.back() != '\'') {
    no_static_value(text, "quoted text");
  }
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}
const char* pointer_of_static(std::string_view text) {
  return text == "nullptr" ? nullptr : kept_text(string_of_static(text).c_str());
}

std::string TypeKey::name() const {
  if (!tag_) return "no type";
  // "... [with T = Pair(Array, int)]" and the like.
  const std::string text = (*tag_)();
  const std::size_t start = text.find("T = "), end = text.rfind(']');
  if (start == std::string::npos || end == std::string::npos || end < start + 4) return text;
  return text.substr(start + 4, end - start - 4);
}

void throw_kept_type(TypeKey kept, TypeKey requested) {
  throw InternalError("a tree of type " + kept.name() + " was kept, and " + requested.name() +
                      " was requested");
}

std::string_view kept_text(std::string_view text) {
  // Never destroyed: results may be printed until the process ends.
  static auto& texts = *new std::set<std::string, std::less<>>;
  static auto& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  auto found = texts.find(text);
  if (found == texts.end()) found = texts.emplace(text).first;
  return *found;
}
const char* kept_text(const char* text) {
  return text ? kept_text(std::string_view(text)).data() : nullptr;
}
void keep_viewed_texts(const std::function<void(TreeVisitor&)>& walk) {
  TextKeeper keeper;
  walk(keeper);
}

std::vector<Array> collect_leaves(const std::function<void(TreeVisitor&)>& walk) {
  Collector visitor;
  walk(visitor);
  return std::move(visitor.leaves);
}

void assign_leaves(const std::function<void(TreeVisitor&)>& walk,
                   const std::vector<Array>& leaves) {
  Assigner visitor(leaves);
  walk(visitor);
  if (visitor.count() != leaves.size()) {
    throw ValueError("a tree of " + std::to_string(visitor.count()) + " arrays was given " +
                     std::to_string(leaves.size()) + " leaves");
  }
}

std::vector<Array> leaves_beside(std::size_t first, std::vector<Array> leaves, std::size_t place) {
  if (leaves.size() != first) {
    throw ValueError("tree_map: the first tree has " + std::to_string(first) +
                     " arrays, and tree " + std::to_string(place) + " has " +
                     std::to_string(leaves.size()));
  }
  return leaves;
}

std::string tree_signature(const std::function<void(TreeVisitor&)>& walk) {
  Signature visitor;
  walk(visitor);
  return std::move(visitor.text);
}

std::vector<std::string> leaf_paths(const std::function<void(TreeVisitor&)>& walk) {
  Paths visitor;
  walk(visitor);
  return std::move(visitor.paths);
}

}  // namespace tessera::internal
