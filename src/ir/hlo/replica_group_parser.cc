// SPDX-License-Identifier: Apache-2.0
// replica_groups: `{}`, `{{0,1},{2,3}}`, `[4,2]<=[2,4]T(1,0)`, `mesh['a'=4,'b'=2] {'a':(2)2}`.
#include <algorithm>
#include <map>
#include <numeric>

#include "src/ir/hlo/hlo_parser.h"
#include "src/sharding/axes/limits.h"

namespace tessera::ir {
namespace {

Dims bracketed(HloLexer& in, char open, char close, std::string_view what) {
  Dims out;
  in.expect(open, "before " + std::string(what));
  if (in.accept(close)) return out;
  do {
    out.push_back(in.integer(what));
  } while (in.accept(','));
  in.expect(close, "after " + std::string(what));
  return out;
}

std::int64_t checked_product(HloLexer& in, const char* at, const Dims& dims) {
  std::int64_t n = 1;
  for (std::int64_t d : dims) {
    if (d < 1 || __builtin_mul_overflow(n, d, &n) || n > kMaxMeshDevices) {
      in.fail_at(at, "[" + join(dims) + "] is no number of devices from 1 to " +
                         std::to_string(kMaxMeshDevices));
    }
  }
  return n;
}

// 0..n-1 as an array of these dims, transposed, row-major.
std::vector<std::int64_t> iota_order(HloLexer& in, const char* at, const Dims& dims,
                                     const Dims& perm) {
  Dims sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < sorted.size() || i < dims.size(); ++i) {
    if (sorted.size() != dims.size() || sorted[i] != std::int64_t(i)) {
      in.fail_at(at, "T(" + join(perm) + ") is no permutation of [" + join(dims) + "]");
    }
  }
  Dims strides = row_major_strides(dims);
  std::vector<std::int64_t> out{0};
  for (std::int64_t d : perm) {
    std::vector<std::int64_t> next;
    next.reserve(out.size() * std::size_t(dims[std::size_t(d)]));
    for (std::int64_t base : out) {
      for (std::int64_t k = 0; k < dims[std::size_t(d)]; ++k) {
        next.push_back(base + k * strides[std::size_t(d)]);
      }
    }
    out = std::move(next);
  }
  return out;
}

// `[dims]T(perm)`, T optional.
std::vector<std::int64_t> iota_source(HloLexer& in) {
  in.skip();
  const char* at = in.position();
  Dims dims = bracketed(in, '[', ']', "the dims of the devices");
  checked_product(in, at, dims);
  Dims perm(dims.size());
  std::iota(perm.begin(), perm.end(), 0);
  if (in.accept('T')) perm = bracketed(in, '(', ')', "the permutation");
  return iota_order(in, at, dims, perm);
}

std::vector<std::vector<std::int64_t>> iota_groups(HloLexer& in) {
  in.skip();
  const char* at = in.position();
  Dims tile = bracketed(in, '[', ']', "the dims of the groups");
  std::int64_t count = checked_product(in, at, tile);
  if (tile.size() != 2) in.fail_at(at, "expected [groups,devices per group]");
  std::vector<std::int64_t> devices;
  if (in.accept_text("<=")) {
    devices = iota_source(in);
  } else {
    in.fail("expected '<=' after the dims of the groups");
  }
  if (std::int64_t(devices.size()) != count) {
    in.fail_at(at, "[" + join(tile) + "] groups of " + std::to_string(devices.size()) + " devices");
  }
  std::vector<std::vector<std::int64_t>> out;
  for (auto it = devices.begin(); it != devices.end(); it += tile[1]) {
    out.emplace_back(it, it + tile[1]);
  }
  return out;
}

std::string axis_name(HloLexer& in) {
  in.expect('\'', "before the name of an axis");
  std::string name(in.word("the name of an axis"));
  in.expect('\'', "after the name of an axis");
  return name;
}

/// `'x'` or `'x':(1)2` of a mesh, as (stride, size) of positions.
std::pair<std::int64_t, std::int64_t> axis_part(HloLexer& in, const std::vector<std::string>& names,
                                                const Dims& sizes) {
  in.skip();
  const char* at = in.position();
  const std::string name = axis_name(in);
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) in.fail_at(at, "the mesh has no axis '" + name + "'");
  const auto axis = std::size_t(it - names.begin());
  std::int64_t pre = 1, size = sizes[axis];
  if (in.accept(':')) {
    in.expect('(', "before the part of an axis");
    pre = in.integer("the part of an axis");
    in.expect(')', "after the part of an axis");
    size = in.integer("the size of the part of an axis");
  }
  if (pre < 1 || size < 1 || pre > sizes[axis] || size > sizes[axis] ||
      sizes[axis] % (pre * size) != 0) {
    in.fail_at(at, "'" + name + "':(" + std::to_string(pre) + ")" + std::to_string(size) +
                       " is no part of an axis of size " + std::to_string(sizes[axis]));
  }
  return {row_major_strides(sizes)[axis] * (sizes[axis] / (pre * size)), size};
}

std::vector<std::vector<std::int64_t>> named_groups(HloLexer& in,
                                                    std::optional<std::string_view> device_ids) {
  in.accept_word("mesh");
  in.skip();
  const char* at = in.position();
  in.expect('[', "before the axes of the mesh");
  std::vector<std::string> names;
  Dims sizes;
  if (!in.accept(']')) {
    do {
      names.push_back(axis_name(in));
      in.expect('=', "after the name of an axis");
      sizes.push_back(in.integer("the size of an axis"));
    } while (in.accept(','));
    in.expect(']', "after the axes of the mesh");
  }
  std::int64_t count = checked_product(in, at, sizes);
  if (in.accept(',')) {
    in.accept_word("device_ids");
    in.expect('=', "after device_ids");
    if (in.peek() != '(') in.fail("expected '(' before the device ids");
    device_ids = in.balanced();
  }
  // Parts of axes in the group, major to minor, as (stride, size) of positions.
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  in.expect('{', "before the axes of a group");
  if (!in.accept('}')) {
    do {
      parts.push_back(axis_part(in, names, sizes));
    } while (in.accept(','));
    in.expect('}', "after the axes of a group");
  }
  std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  if (device_ids) {
    const char* back = in.position();
    in.seek(device_ids->data());
    in.expect('(', "before the device ids");
    if (in.peek() == '[') {
      ids = iota_source(in);
    } else {
      ids.clear();
      do {
        ids.push_back(in.integer("a device id"));
      } while (in.accept(','));
    }
    in.expect(')', "after the device ids");
    in.seek(back);
    if (std::int64_t(ids.size()) != count) {
      in.fail_at(device_ids->data(),
                 std::to_string(ids.size()) + " device ids for a mesh of " + std::to_string(count));
    }
  }
  // A position's group is the position with the coordinates of the parts set to 0.
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> groups;
  for (std::int64_t p = 0; p < count; ++p) {
    std::int64_t base = p, member = 0;
    for (auto [stride, size] : parts) {
      std::int64_t k = p / stride % size;
      base -= k * stride;
      member = member * size + k;
    }
    groups[base].emplace_back(member, ids[std::size_t(p)]);
  }
  std::vector<std::vector<std::int64_t>> out;
  for (auto& [base, members] : groups) {
    std::sort(members.begin(), members.end());
    auto& group = out.emplace_back();
    for (auto [member, id] : members) group.push_back(id);
  }
  return out;
}

}  // namespace

DeviceGroups parse_groups(AttributeReader& reader) {
  DeviceGroups groups;
  std::optional<std::string_view> device_ids = reader.take("device_ids");
  std::optional<std::string_view> value = reader.take("replica_groups");
  if (!value) return groups;
  HloLexer& in = reader.lexer();
  reader.at(*value, [&] {
    if (in.peek() == '[') {
      groups.lists = iota_groups(in);
    } else if (in.peek() == 'm') {
      groups.lists = named_groups(in, device_ids);
    } else {
      in.expect('{', "before the replica groups");
      if (in.accept('}')) return;
      do {
        groups.lists.push_back(in.braced_integers("a device"));
      } while (in.accept(','));
      in.expect('}', "after the replica groups");
    }
  });
  return groups;
}

}  // namespace tessera::ir
