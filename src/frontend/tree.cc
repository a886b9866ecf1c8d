// SPDX-License-Identifier: Apache-2.0
#include <tessera/tree.h>

namespace tessera::internal {

namespace {

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
  }
  void key(std::string_view k, Node) override {
    text += k;
    text += ':';
  }
  void end() override { text += ']'; }
  void leaf(Array&) override { text += '*'; }
  void none() override { text += '-'; }
  void static_value(const std::string& v) override {
    text += '=';
    text += v;
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
