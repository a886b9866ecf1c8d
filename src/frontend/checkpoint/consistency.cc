// SPDX-License-Identifier: Apache-2.0
// Texts by which processes compare what they save.
#include "src/frontend/checkpoint/consistency.h"

#include <algorithm>
#include <sstream>

#include "src/frontend/checkpoint/tensor_files.h"

namespace tessera::frontend {

namespace {

std::string fingerprint(const SavedArray& array) {
  if (array.committed || array.pieces.empty()) return "";
  std::uint64_t hash = 0;
  stream_box(array, array.pieces, Box::entire(array.shape.dims),
             [&](std::span<const std::byte> bytes) {
               const std::uint64_t both[2] = {hash, hash_bytes(bytes)};
               hash = hash_bytes(std::as_bytes(std::span(both)));
             });
  return std::to_string(hash);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

std::string described(const std::vector<Array>& arrays, const std::vector<std::string>& paths,
                      Location location) {
  std::string out;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const internal::ArrayImpl& impl = internal::impl_of(arrays[i], location);
    out += "array " + paths[i] + ": " + impl.shape.to_string();
    if (impl.kind != internal::ArrayImpl::Kind::device) {
      out += ", a number";
    } else if (!impl.committed) {
      out += ", uncommitted";
    } else {
      out += ", " + impl.sharding.to_string() + " on devices";
      for (const Device& d : impl.sharding.device_list(location)) out += " " + std::to_string(d.id);
    }
    out += '\n';
  }
  return out;
}

void check_same(const std::vector<std::string>& said, const std::string& who) {
  for (std::size_t p = 1; p < said.size(); ++p) {
    if (said[p] == said[0]) continue;
    std::vector<std::string> a = lines_of(said[0]), b = lines_of(said[p]);
    a.resize(std::max(a.size(), b.size()), "nothing more");
    b.resize(a.size(), "nothing more");
    const auto k = std::size_t(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
    throw ValueError(who + ": all processes must save the same: process 0 has " + a[k] +
                     ", and process " + std::to_string(p) + " has " + b[k] +
                     "; valid: arrays on devices of all processes, whose parts each writes, or "
                     "values that are the same in all of them");
  }
}

std::string fingerprints(const std::vector<SavedArray>& arrays) {
  std::string out;
  for (const SavedArray& a : arrays) out += fingerprint(a) + '\n';
  return out;
}

void check_values(const std::vector<std::string>& said, const std::vector<SavedArray>& arrays,
                  const std::vector<std::string>& paths, const std::string& who) {
  for (std::size_t p = 1; p < said.size(); ++p) {
    std::vector<std::string> first = lines_of(said[0]), other = lines_of(said[p]);
    first.resize(arrays.size());
    other.resize(arrays.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (first[i] == other[i]) continue;
      throw ValueError(who + ": the array " + paths[i] + " (" + arrays[i].shape.to_string() +
                       ") is a value of each process, and must be the same in all of them; "
                       "those of process 0 and process " +
                       std::to_string(p) + " differ");
    }
  }
}

}  // namespace tessera::frontend
