// SPDX-License-Identifier: Apache-2.0
// Trees of arrays to JSON, their comparison, and the assignment of what was read.
#include "src/frontend/checkpoint/tree_structure.h"

#include <utility>

#include <tessera/error.h>

namespace tessera::frontend {

using internal::TreeVisitor;

namespace {

const char* kind_name(TreeVisitor::Node node) {
  switch (node) {
    case TreeVisitor::Node::sequence:
      return "list";
    case TreeVisitor::Node::tuple:
      return "tuple";
    case TreeVisitor::Node::map:
      return "map";
    case TreeVisitor::Node::structure:
      return "struct";
  }
  return "";
}

class Builder : public TreeVisitor {
 public:
  void begin(Node node, std::size_t) override {
    stack_.push_back(
        {{{"kind", kind_name(node)}, {"keys", Json::array()}, {"children", Json::array()}},
         std::exchange(alternatives_, {}),
         "",
         ""});
  }
  void key(std::size_t i) override { set_key(std::to_string(i), "[" + std::to_string(i) + "]"); }
  void key(std::string_view k, Node node) override {
    const std::string text(k);
    if (node != Node::map) return set_key(text, "." + text);
    // Texts as keys are quoted.
    set_key(k.size() > 1 && k.front() == '\'' ? internal::string_of_static(k) : text,
            "[" + text + "]");
  }
  void end() override {
    Level level = std::move(stack_.back());
    stack_.pop_back();
    alternatives_ = std::move(level.alternatives);
    put(std::move(level.node));
  }
  void leaf(Array&) override {
    std::string path, name;
    for (const Level& level : stack_) {
      path += level.path;
      name += (name.empty() ? "" : ".") + level.key;
    }
    put({{"array", out.paths.size()}});
    out.paths.push_back(std::move(path));
    out.names.push_back(name.empty() ? "array" : std::move(name));
  }
  void none() override { put({{"none", true}}); }
  void alternative(std::size_t i) override { alternatives_.push_back(i); }
  void static_value(const std::string& text) override { put({{"static", text}}); }

  TreeStructure out;

 private:
  struct Level {
    Json node;
    std::vector<std::size_t> alternatives;
    std::string key, path;
  };
  void set_key(std::string key, std::string path) {
    stack_.back().node["keys"].push_back(key);
    stack_.back().key = std::move(key);
    stack_.back().path = std::move(path);
  }
  void put(Json node) {
    for (; !alternatives_.empty(); alternatives_.pop_back()) {
      node = {{"alternative", alternatives_.back()}, {"of", std::move(node)}};
    }
    if (stack_.empty()) {
      out.root = std::move(node);
    } else {
      stack_.back().node["children"].push_back(std::move(node));
    }
  }

  std::vector<Level> stack_;
  std::vector<std::size_t> alternatives_;
};

std::string shown(const Json& node, const std::string& who) {
  if (!node.is_object()) throw IoError(who + ": a node of the tree is no object");
  if (node.contains("array")) return "an array";
  if (node.contains("none")) return "nothing";
  if (node.contains("static")) return "a static value";
  if (node.contains("alternative")) {
    return "alternative " + std::to_string(json_count(node["alternative"], "alternative", who)) +
           " of a variant";
  }
  return "a " + json_string(json_member(node, "kind", who), "kind", who) + " of " +
         std::to_string(json_list(node, "children", who).size());
}

class Comparison {
 public:
  explicit Comparison(const std::string& who) : who_(who) {}

  void compare(const Json& saved, const Json& wanted, const std::string& path, std::size_t depth) {
    if (lines.size() >= 10) return;
    if (depth > kMaxTreeDepth) throw IoError(who_ + ": the tree is too deep");
    const std::string have = shown(saved, who_), want = shown(wanted, who_);
    if (have != want) {
      lines.push_back("at '" + path + "': " + have + " was saved, and " + want + " is requested");
      return;
    }
    if (wanted.contains("alternative")) {
      return compare(json_member(saved, "of", who_), wanted["of"], path, depth + 1);
    }
    if (!wanted.contains("kind")) return;
    const Json &keys = json_list(saved, "keys", who_), &children = saved["children"];
    if (keys.size() != children.size()) throw IoError(who_ + ": a key for each child is missing");
    for (std::size_t i = 0; i < children.size(); ++i) {
      const std::string &a = json_string(keys[i], "keys", who_),
                        b = wanted["keys"][i].get<std::string>();
      if (a != b) {
        lines.push_back("at '" + path + "': '" + a + "' was saved, and '" + b + "' is requested");
      } else {
        compare(children[i], wanted["children"][i], path.empty() ? a : path + "." + a, depth + 1);
      }
    }
  }

  std::vector<std::string> lines;

 private:
  const std::string& who_;
};

void collect_statics(const Json& node, std::vector<std::string>* out) {
  if (node.contains("static")) {
    out->push_back(json_string(node["static"], "static", "the tree"));
  } else if (node.contains("alternative")) {
    collect_statics(node["of"], out);
  } else if (node.contains("children")) {
    for (const Json& child : node["children"]) collect_statics(child, out);
  }
}

class Assigner : public TreeVisitor {
 public:
  Assigner(const std::vector<Array>& arrays, const std::vector<std::string>& statics)
      : arrays_(arrays), statics_(statics) {}
  void leaf(Array& array) override { array = arrays_.at(next_array_++); }
  void static_value(const std::string& text) override {
    const std::string& saved = statics_.at(next_static_++);
    differs_ = saved == text ? nullptr : &saved;
  }
  const std::string* replacement() override { return std::exchange(differs_, nullptr); }

 private:
  const std::vector<Array>& arrays_;
  const std::vector<std::string>& statics_;
  std::size_t next_array_ = 0, next_static_ = 0;
  const std::string* differs_ = nullptr;
};

}  // namespace

TreeStructure structure_of(const TreeWalk& walk) {
  Builder builder;
  walk(builder);
  return std::move(builder.out);
}

std::vector<std::string> structure_differences(const Json& saved, const Json& requested,
                                               const std::string& who) {
  Comparison comparison(who);
  comparison.compare(saved, requested, "", 0);
  return std::move(comparison.lines);
}

std::vector<std::string> static_texts(const Json& root) {
  std::vector<std::string> out;
  collect_statics(root, &out);
  return out;
}

void assign_tree(const TreeWalk& walk, const std::vector<Array>& arrays,
                 const std::vector<std::string>& statics) {
  Assigner assigner(arrays, statics);
  walk(assigner);
  const std::vector<std::string> now = static_texts(structure_of(walk).root);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i] != statics[i]) {
      throw ValueError("the static value " + statics[i] + " was saved, and the tree has " + now[i] +
                       ", which is constant");
    }
  }
}

}  // namespace tessera::frontend
