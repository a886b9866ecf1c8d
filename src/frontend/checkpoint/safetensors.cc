// SPDX-License-Identifier: Apache-2.0
// save_safetensors and load_safetensors.
#include <tessera/safetensors.h>

#include <algorithm>
#include <numeric>

#include "src/base/at_location.h"
#include "src/base/check.h"
#include "src/base/files/safetensors.h"
#include "src/frontend/checkpoint/joint_file.h"
#include "src/frontend/checkpoint/placement_of.h"
#include "src/frontend/checkpoint/tensor_files.h"
#include "src/frontend/checkpoint/tree_structure.h"
#include "src/frontend/run/sharding_prefix.h"

namespace tessera {

namespace {

/// A file, and its arrays by name.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path)
      : file_(File::open(path)), header_(read_safetensors_header(file_)) {
    for (const SafetensorsEntry& e : header_.entries) by_name_.emplace(e.name, &e);
  }
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const SafetensorsHeader& header() const { return header_; }
  const SafetensorsEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  Array read(const SafetensorsEntry& entry, const std::optional<Sharding>& sharding,
             Location location) const {
    frontend::PieceSource source{&file_,     entry.begin, Box::entire(entry.shape.dims),
                                 who(entry), nullptr,     entry.packed};
    return frontend::read_array({source}, entry.shape, sharding, false,
                                file_.path() + ": " + who(entry), location);
  }
  static std::string who(const SafetensorsEntry& entry) {
    return "array '" + entry.name + "' (" + entry.shape.to_string() + ")";
  }

 private:
  File file_;
  SafetensorsHeader header_;
  std::map<std::string, const SafetensorsEntry*> by_name_;
};

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < 20; ++i) {
    out += (i ? ", '" : "'") + names[i] + "'";
  }
  return names.size() > 20 ? out + ", ..." : out;
}

/// Of the names of a tree's arrays no two may be the same, or those of nothing.
void check_names(const frontend::TreeStructure& tree, const std::string& who) {
  std::map<std::string, std::size_t> first;
  for (std::size_t i = 0; i < tree.names.size(); ++i) {
    const auto [other, is_first] = first.emplace(tree.names[i], i);
    if (is_first) continue;
    throw ValueError(who + ": the arrays " + tree.paths[other->second] + " and " + tree.paths[i] +
                     " of the tree have the same name, '" + tree.names[i] + "'");
  }
}

/// The header of a file, and the positions of the arrays in the order in which they are in it.
frontend::FileOrder order_of(const std::vector<frontend::SavedArray>& saved,
                             const std::vector<std::string>& names,
                             const std::map<std::string, std::string>& metadata,
                             const std::string& who) {
  std::vector<SafetensorsEntry> entries(saved.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    entries[i].name = names[i];
    entries[i].shape = saved[i].shape;
  }
  frontend::FileOrder out;
  out.header = safetensors_header(&entries, metadata, who);
  out.arrays.resize(saved.size());
  std::iota(out.arrays.begin(), out.arrays.end(), 0);
  std::stable_sort(out.arrays.begin(), out.arrays.end(), [&](std::size_t a, std::size_t b) {
    return entries[a].begin < entries[b].begin;
  });
  return out;
}

}  // namespace

namespace internal {

void save_safetensors_tree(const std::string& path, const std::function<void(TreeVisitor&)>& walk,
                           const SaveSafetensorsOptions& options, Location location) {
  at_location(location, [&] {
    const std::string who = "save_safetensors to " + path;
    const frontend::TreeStructure tree = frontend::structure_of(walk);
    check_names(tree, who);
    const std::vector<Array> leaves = collect_leaves(walk);
    frontend::check_saved(leaves, tree.paths, who, location);
    // By the devices, and not by what this process has of them: all processes must decide alike.
    if (std::any_of(leaves.begin(), leaves.end(), frontend::of_several_processes)) {
      std::string same;
      for (const auto& [key, text] : options.metadata)
        same += "metadata " + key + ": " + text + '\n';
      return frontend::save_together({"save_safetensors", path, same,
                                      [&](const std::vector<frontend::SavedArray>& arrays) {
                                        return order_of(arrays, tree.names, options.metadata, who);
                                      }},
                                     leaves, tree.paths, location);
    }
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const ArrayImpl& impl = *leaves[i].impl();
      if (impl.kind != ArrayImpl::Kind::device || impl.sharding.is_fully_addressable()) continue;
      throw ValueError(who + ": the array " + tree.paths[i] + " is on devices of process " +
                       std::to_string(impl.sharding.device_list()[0].process_index) +
                       " alone; valid: to call it in that process alone, or with an array of "
                       "several processes in the tree as well");
    }
    const auto arrays = frontend::snapshot(leaves, tree.paths, who, location);
    const frontend::FileOrder order = order_of(arrays, tree.names, options.metadata, who);
    ReplacedFile file(path);
    file.write(order.header);
    for (const std::size_t i : order.arrays) {
      const frontend::SavedArray& array = frontend::value_of(arrays, i);
      frontend::stream_box(array, array.pieces, Box::entire(array.shape.dims),
                           [&](std::span<const std::byte> bytes) { file.write(bytes); });
    }
    file.commit();
  });
}

void load_safetensors_tree(const std::string& path, const std::function<void(TreeVisitor&)>& walk,
                           const LoadSafetensorsOptions& options, Location location) {
  at_location(location, [&] {
    const std::string who = "load_safetensors of " + path;
    const frontend::TreeStructure tree = frontend::structure_of(walk);
    check_names(tree, who);
    const std::vector<Array> like = collect_leaves(walk);
    const auto requested =
        frontend::broadcast_prefix(options.sharding, walk, "load_safetensors' sharding", location);
    std::vector<std::optional<Sharding>> shardings;
    for (std::size_t i = 0; i < like.size(); ++i) {
      const std::string mine = who + ": array '" + tree.names[i] + "'";
      shardings.push_back(frontend::resolve_leaf(requested[i], mine, true, false, location));
      if (!shardings[i]) shardings[i] = frontend::placement_of(like[i], mine, location);
    }
    const SafetensorsFile file(path);
    std::vector<std::string> missing, unknown;
    std::set<std::string> known;
    std::vector<const SafetensorsEntry*> entries;
    for (const std::string& name : tree.names) {
      known.insert(name);
      entries.push_back(file.find(name));
      if (!entries.back()) missing.push_back(name);
    }
    for (const SafetensorsEntry& e : file.header().entries) {
      if (!known.count(e.name)) unknown.push_back(e.name);
    }
    if (!missing.empty() || (options.strict && !unknown.empty())) {
      throw ValueError(
          who + ": " +
          (missing.empty()
               ? std::string("the tree has no places for the arrays ") + listed(unknown) +
                     "; valid: the option strict = false, which ignores them"
               : "the file lacks the arrays " + listed(missing) +
                     (unknown.empty()
                          ? std::string()
                          : ", and the tree has no places for its arrays " + listed(unknown))));
    }
    for (std::size_t i = 0; i < like.size(); ++i) {
      const std::string mine = who + ": array '" + tree.names[i] + "'";
      frontend::check_like(entries[i]->shape, like[i], mine, location);
      if (shardings[i]) {
        frontend::check_placement(*shardings[i], entries[i]->shape, mine, location);
      }
    }
    std::vector<Array> arrays;
    for (std::size_t i = 0; i < like.size(); ++i) {
      arrays.push_back(file.read(*entries[i], shardings[i], location));
    }
    assign_leaves(walk, arrays);
  });
}

}  // namespace internal

std::map<std::string, Array> load_safetensors_arrays(const std::string& path,
                                                     const LoadSafetensorsOptions& options,
                                                     Location location) {
  return at_location(location, [&] {
    const std::string who = "load_safetensors_arrays of " + path;
    if (!options.sharding.is_leaf()) {
      throw ValueError(who + ": one sharding is for all arrays, and this is a tree of them: " +
                       options.sharding.to_string());
    }
    const auto sharding = frontend::resolve_leaf(options.sharding, who, true, false, location);
    const SafetensorsFile file(path);
    for (const SafetensorsEntry& e : file.header().entries) {
      if (sharding) {
        frontend::check_placement(*sharding, e.shape, who + ": array '" + e.name + "'", location);
      }
    }
    std::map<std::string, Array> out;
    for (const SafetensorsEntry& e : file.header().entries) {
      out[e.name] = file.read(e, sharding, location);
    }
    return out;
  });
}

std::map<std::string, std::string> safetensors_metadata(const std::string& path,
                                                        Location location) {
  return at_location(location, [&] { return SafetensorsFile(path).header().metadata; });
}

}  // namespace tessera
