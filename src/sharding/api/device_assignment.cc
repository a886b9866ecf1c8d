// SPDX-License-Identifier: Apache-2.0
// Orders of devices as transposed arrays: the axes that an assignment runs over.
#include <algorithm>
#include <map>

#include <tessera/sharding/op_sharding.h>

#include "src/base/arrays/shape.h"
#include "src/sharding/axes/device_order.h"

namespace tessera {
namespace {

std::string dims_text(const std::vector<StridedDim>& dims) {
  std::string out = "[";
  for (const StridedDim& d : dims) {
    out += (out.size() > 1 ? ", " : "") + std::to_string(d.size) + " at stride " +
           std::to_string(d.stride);
  }
  return out + "]";
}

/// The first devices of an assignment, for messages.
std::string assignment_text(const std::vector<std::int64_t>& assignment) {
  constexpr std::size_t kShown = 16;
  if (assignment.size() <= kShown) return to_string(assignment);
  const std::vector<std::int64_t> first(assignment.begin(),
                                        assignment.begin() + std::ptrdiff_t(kShown));
  std::string out = to_string(first);
  out.pop_back();
  return out + ",...] of " + std::to_string(assignment.size()) + " devices";
}

}  // namespace

std::vector<std::int64_t> strides_for_sizes(const std::vector<std::int64_t>& sizes,
                                            Location location) {
  std::int64_t product = 1;
  for (const std::int64_t s : sizes) {
    if (s < 1 || __builtin_mul_overflow(product, s, &product)) {
      throw ValueError(
          "strides_for_sizes: sizes must be at least 1, and their product a 64-bit "
          "number, got " +
              to_string(sizes),
          location);
    }
  }
  return row_major_strides(sizes);
}

std::vector<StridedDim> unflatten_superdims(const std::vector<std::int64_t>& assignment,
                                            Location location) {
  const auto digits = digits_of_list(assignment);
  if (assignment.empty() || assignment[0] != 0 || !digits) {
    throw NotImplementedError("the order of devices " + assignment_text(assignment) +
                                  " can't be converted to a PartitionSpec: it is no transposition "
                                  "of an array with all numbers from 0 in order",
                              location);
  }
  std::vector<StridedDim> out;
  for (const Digit& d : *digits) out.push_back({d.size, d.stride});
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<StridedDim> explode_superdims(const std::vector<std::int64_t>& sizes,
                                          const std::vector<StridedDim>& dims, Location location) {
  const std::vector<std::int64_t> strides = strides_for_sizes(sizes, location);
  std::map<std::int64_t, std::int64_t> size_at;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > 1) size_at[strides[i]] = sizes[i];
  }
  std::vector<StridedDim> out;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    std::vector<StridedDim> parts;
    std::int64_t rest = dim->size, stride = dim->stride;
    while (rest > 1) {
      const auto known = size_at.find(stride);
      if (known == size_at.end() || rest % known->second != 0) {
        throw NotImplementedError(
            "the order of devices can't be converted to a PartitionSpec: its dims, from the minor "
            "one on, are " +
                dims_text(dims) + ", and that of size " + std::to_string(dim->size) +
                " at stride " + std::to_string(dim->stride) +
                " isn't made of dims of an array with sizes " + to_string(sizes),
            location);
      }
      parts.push_back({known->second, stride});
      rest /= known->second;
      stride *= known->second;
    }
    out.insert(out.end(), parts.rbegin(), parts.rend());
  }
  return out;
}

std::vector<std::string> unflatten_array(const Mesh::Shape& named_sizes,
                                         const std::vector<std::int64_t>& assignment,
                                         Location location) {
  std::vector<std::int64_t> sizes;
  std::vector<std::string> names;
  for (const auto& [name, size] : named_sizes) {
    if (size == 1) continue;
    sizes.push_back(size);
    names.push_back(name);
  }
  const std::vector<std::int64_t> strides = strides_for_sizes(sizes, location);
  const std::int64_t count = sizes.empty() ? 1 : sizes[0] * strides[0];
  std::vector<std::int64_t> sorted = assignment;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = std::int64_t(sorted.size()) == count;
  for (std::size_t i = 0; permutation && i < sorted.size(); ++i) {
    permutation = sorted[i] == std::int64_t(i);
  }
  if (!permutation) {
    throw ValueError("unflatten_array: the axes have " + std::to_string(count) + " devices, and " +
                         assignment_text(assignment) +
                         " isn't a permutation of the numbers below that",
                     location);
  }
  std::vector<std::string> out;
  for (const StridedDim& d :
       explode_superdims(sizes, unflatten_superdims(assignment, location), location)) {
    out.push_back(
        names[std::size_t(std::find(strides.begin(), strides.end(), d.stride) - strides.begin())]);
  }
  return out;
}

}  // namespace tessera
