// SPDX-License-Identifier: Apache-2.0
// Tilings and replica groups as HLO text, each made once.
#include "src/ir/hlo/device_texts.h"

#include <optional>

#include "src/base/contains.h"
#include "src/ir/hlo/text_out.h"
#include "src/sharding/axes/device_order.h"
#include "src/sharding/axes/tiling.h"

namespace tessera::ir {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

/// Groups of more devices than these are printed as a transposed array of them, if they are one.
constexpr std::int64_t kListedDevices = 64;

void append_joined(std::string& out, const Dims& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0) out += ',';
    append_int(out, list[i]);
  }
}

/// The axes of the groups, then those within one, as digits of the devices' numbers.
std::vector<Digit> digits_of(const DeviceGroups& g) {
  const Dims strides = g.mesh->strides();
  std::vector<Digit> digits;
  const auto add = [&](int axis) {
    digits.push_back({g.mesh->axes[std::size_t(axis)].size, strides[std::size_t(axis)]});
  };
  for (int a = 0; a < int(strides.size()); ++a) {
    if (!contains(g.axes, a)) add(a);
  }
  for (const int a : g.axes) add(a);
  return joined_digits(digits);
}

/// `[groups,size]<=[dims]T(order)`, with as few dims as there can be: as long for any number of
/// devices.
void append_iota(std::string& out, const std::vector<Digit>& digits, std::int64_t within,
                 std::int64_t devices) {
  Dims sizes;
  IndexList order;
  iota_of_digits(digits, &sizes, &order);
  out += '[';
  append_int(out, devices / within);
  out += ',';
  append_int(out, within);
  out += "]<=[";
  append_joined(out, sizes);
  out += ']';
  if (order.empty()) return;
  out += "T(";
  append_joined(out, Dims(order.begin(), order.end()));
  out += ')';
}

std::int64_t count(const Lists& lists) {
  std::int64_t n = 0;
  for (const auto& list : lists) n += std::int64_t(list.size());
  return n;
}

/// False for lists that are no transposed array of all numbers.
bool append_iota(std::string& out, const Lists& lists) {
  std::vector<std::int64_t> all;
  all.reserve(std::size_t(count(lists)));
  for (const auto& list : lists) {
    if (list.empty() || list.size() != lists[0].size()) return false;
    all.insert(all.end(), list.begin(), list.end());
  }
  const std::optional<std::vector<Digit>> digits = digits_of_list(all);
  if (digits) append_iota(out, *digits, std::int64_t(lists[0].size()), std::int64_t(all.size()));
  return digits.has_value();
}

void append_lists(std::string& out, const Lists& lists) {
  if (count(lists) > kListedDevices && append_iota(out, lists)) return;
  out += '{';
  for (std::size_t i = 0; i < lists.size(); ++i) {
    if (i > 0) out += ',';
    append_braced(out, lists[i]);
  }
  out += '}';
}

/// Appends what `make` writes where nothing is known for the key.
template <class Texts, class Key, class Make>
void append_known(std::string& out, Texts& texts, const Key& key, Make&& make) {
  const auto [it, fresh] = texts.try_emplace(key);
  if (fresh) it->second = make();
  out += it->second;
}

}  // namespace

DeviceTexts::OfMesh& DeviceTexts::of(const MeshRef& mesh) {
  OfMesh& known = meshes_[mesh.get()];
  if (!known.mesh) known.mesh = mesh;
  return known;
}

void DeviceTexts::append_tiling(std::string& out, const TensorSharding& s) {
  if (s.kind != TensorSharding::Kind::axes || !s.mesh || s.mesh->device_ids.empty()) {
    out += to_tiling(s).to_string();
    return;
  }
  Key key{s.shard_group, s.shard_like ? 1 : 0};
  const auto add = [&](const IndexList& axes) {
    key.insert(key.end(), axes.begin(), axes.end());
    key.push_back(-1);
  };
  for (const DimSharding& d : s.dims) add(d.axes);
  add(s.manual);
  add(s.unreduced);
  append_known(out, of(s.mesh).tilings, key, [&] { return to_tiling(s).to_string(); });
}

void DeviceTexts::append_groups(std::string& out, const DeviceGroups& groups) {
  if (!groups.symbolic()) {
    if (groups.lists.empty()) {
      out += "{}";
    } else if (count(groups.lists) <= kListedDevices) {
      append_lists(out, groups.lists);
    } else {
      append_known(out, lists_, groups.lists, [&] {
        std::string text;
        append_lists(text, groups.lists);
        return text;
      });
    }
    return;
  }
  const std::int64_t devices = groups.mesh->num_devices();
  if (groups.mesh->device_ids.empty()) {
    if (devices > kListedDevices) {
      return append_iota(out, digits_of(groups), groups.group_size(devices), devices);
    }
    return append_lists(out, groups.expand(devices));
  }
  append_known(out, of(groups.mesh).groups, Key(groups.axes.begin(), groups.axes.end()), [&] {
    std::string text;
    append_lists(text, groups.expand(devices));
    return text;
  });
}

void DeviceTexts::append_pairs(std::string& out, const DevicePairs& pairs) {
  const auto [it, fresh] = pairs_.try_emplace(pairs);
  std::string& text = it->second;
  if (fresh) {
    text += '{';
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      text += i > 0 ? ",{" : "{";
      append_int(text, pairs[i].first);
      text += ',';
      append_int(text, pairs[i].second);
      text += '}';
    }
    text += '}';
  }
  out += text;
}

void DeviceTexts::append_order(std::string& out, const MeshRef& mesh) {
  std::string& order = of(mesh).order;
  if (order.empty()) append_braced(order, mesh->device_ids);
  out += order;
}

}  // namespace tessera::ir
