// SPDX-License-Identifier: Apache-2.0
// Records trees as nodes and compares them, for messages.
#include <tessera/detail/tree_differences.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::internal {

namespace {

/// Texts of trees stop after about as many characters, lists of differences after as many places.
constexpr std::size_t kLongText = 120;
constexpr std::size_t kManyPlaces = 8;

struct TreeNode {
  enum class Kind : unsigned char { array, nothing, value, container };
  Kind kind = Kind::nothing;
  std::string text;  ///< the type of an array, a static value
  TreeVisitor::Node shape = TreeVisitor::Node::sequence;
  std::vector<std::pair<std::string, TreeNode>> children;  ///< with their part of the path
  std::string alternatives;                                ///< of variants around the node
};

class Recorder final : public TreeVisitor {
 public:
  void begin(Node shape, std::size_t) override {
    TreeNode node;
    node.kind = TreeNode::Kind::container;
    node.shape = shape;
    open_.push_back(&add(std::move(node)));
  }
  void key(std::size_t i) override { next_ = "[" + std::to_string(i) + "]"; }
  void key(std::string_view k, Node node) override {
    next_ = node == Node::map ? "[" + std::string(k) + "]" : "." + std::string(k);
  }
  void end() override { open_.pop_back(); }
  void leaf(Array& a) override {
    if (a.valid()) return void(add({TreeNode::Kind::array, a.type_string(), {}, {}, {}}));
    add({});
  }
  void none() override { add({}); }
  void alternative(std::size_t i) override {
    alternatives_ += "alternative " + std::to_string(i) + ", ";
  }
  void static_value(const std::string& v) override { add({TreeNode::Kind::value, v, {}, {}, {}}); }

  TreeNode root;

 private:
  /// A node's children don't move any more once one of them is open: only the last is.
  TreeNode& add(TreeNode node) {
    node.alternatives = std::exchange(alternatives_, {});
    if (open_.empty()) return root = std::move(node);
    auto& children = open_.back()->children;
    children.emplace_back(std::exchange(next_, {}), std::move(node));
    return children.back().second;
  }

  std::vector<TreeNode*> open_;
  std::string next_, alternatives_;
};

TreeNode record(const std::function<void(TreeVisitor&)>& walk) {
  Recorder recorder;
  walk(recorder);
  return std::move(recorder.root);
}

void write(const TreeNode& node, std::string* out) {
  *out += node.alternatives;
  switch (node.kind) {
    case TreeNode::Kind::nothing:
      *out += "nothing";
      return;
    case TreeNode::Kind::array:
    case TreeNode::Kind::value:
      *out += node.text;
      return;
    case TreeNode::Kind::container:
      break;
  }
  using Node = TreeVisitor::Node;
  const bool keys = node.shape == Node::map;
  *out += node.shape == Node::sequence ? '[' : node.shape == Node::tuple ? '(' : '{';
  std::size_t written = 0;
  for (const auto& [path, child] : node.children) {
    *out += written == 0 ? "" : ", ";
    if (out->size() > kLongText) {
      *out += "... of " + std::to_string(node.children.size());
      break;
    }
    if (keys) *out += path.substr(1, path.size() - 2) + ": ";
    if (path[0] == '.') *out += path + ": ";
    write(child, out);
    ++written;
  }
  *out += node.shape == Node::sequence ? ']' : node.shape == Node::tuple ? ')' : '}';
}

std::string text_of(const TreeNode& node) {
  std::string out;
  write(node, &out);
  return out;
}

class Comparison {
 public:
  explicit Comparison(const TreeNames& names) : names_(names) {}

  void compare(const std::string& path, const TreeNode& a, const TreeNode& b) {
    using Kind = TreeNode::Kind;
    if (a.kind != b.kind || a.alternatives != b.alternatives || a.shape != b.shape) {
      return note(path, a, b, "");
    }
    if (a.kind == Kind::value && a.text != b.text) return note(path, a, b, "");
    const auto same_key = [](const auto& x, const auto& y) { return x.first == y.first; };
    if (!std::equal(a.children.begin(), a.children.end(), b.children.begin(), b.children.end(),
                    same_key)) {
      return note(path, a, b, keys_text(path, a, b));
    }
    for (std::size_t i = 0; i < a.children.size(); ++i) {
      compare(path + a.children[i].first, a.children[i].second, b.children[i].second);
    }
  }

  std::string text() const {
    if (places_ <= kManyPlaces) return text_;
    return text_ + "; and " + std::to_string(places_ - kManyPlaces) + " more";
  }

 private:
  void note(const std::string& path, const TreeNode& a, const TreeNode& b,
            const std::string& keys) {
    if (++places_ > kManyPlaces) return;
    text_ += (text_.empty() ? "" : "; ") + path + " is " + text_of(a) + " " + names_.first +
             " and " + text_of(b) + " " + names_.second + keys;
  }

  /// The places that only one of two containers has.
  std::string keys_text(const std::string& path, const TreeNode& a, const TreeNode& b) const {
    const auto only = [&](const TreeNode& in, const TreeNode& other) {
      std::string out;
      std::size_t count = 0;
      for (const auto& [key, child] : in.children) {
        const bool both = std::any_of(other.children.begin(), other.children.end(),
                                      [&key = key](const auto& c) { return c.first == key; });
        if (both || ++count > kManyPlaces) continue;
        out += (out.empty() ? "" : ", ") + path + key;
      }
      return out + (count > kManyPlaces ? ", ..." : "");
    };
    std::string out;
    for (const auto& [list, where] :
         {std::pair(only(a, b), names_.first), std::pair(only(b, a), names_.second)}) {
      if (list.empty()) continue;
      out += (out.empty() ? " (" : ", and ") + list + " only " + where;
    }
    return out + ")";
  }

  const TreeNames& names_;
  std::string text_;
  std::size_t places_ = 0;
};

}  // namespace

std::string tree_differences(const std::function<void(TreeVisitor&)>& first,
                             const std::function<void(TreeVisitor&)>& second,
                             const TreeNames& names) {
  Comparison comparison(names);
  comparison.compare(names.root, record(first), record(second));
  return comparison.text();
}

}  // namespace tessera::internal
