// SPDX-License-Identifier: Apache-2.0
// Rules of operations between devices, and of asynchronous ones.
#include <algorithm>

#include "src/base/contains.h"
#include "src/text/verify/verifier.h"

namespace tessera::text {

std::vector<Dims> Verifier::group_lists(bool* by_axes) {
  *by_axes =
      r_.expanded(r_.need(op_, "replica_groups").value).find("mesh_axes") != std::string_view::npos;
  return *by_axes ? std::vector<Dims>() : r_.groups(op_).lists;
}

void Verifier::groups_not_empty() {
  bool by_axes = false;
  const std::vector<Dims> lists = group_lists(&by_axes);
  if (by_axes || (!lists.empty() && !lists[0].empty())) return;
  fail("has no replica_groups; valid: one group or more, of one device or more");
}

void Verifier::groups_complete() {
  bool by_axes = false;
  std::vector<std::int64_t> seen;
  for (const Dims& row : group_lists(&by_axes)) seen.insert(seen.end(), row.begin(), row.end());
  std::sort(seen.begin(), seen.end());
  for (std::size_t n = 0; n < seen.size(); ++n) {
    const auto want = std::int64_t(n);
    if (seen[n] == want) continue;
    fail("has replica_groups " +
         (seen[n] < want
              ? "that name device " + std::to_string(seen[n]) + (seen[n] < 0 ? "" : " twice")
              : "without device " + std::to_string(want)) +
         "; valid: each device from 0 to the last one, once");
  }
}

void Verifier::global_ids_need_channel() {
  if (!r_.flag(op_, "use_global_device_ids", false)) return;
  if (!r_.channel(op_)) {
    fail("has use_global_device_ids and no channel; valid: a channel_handle of 1 or more");
  }
  groups_not_empty();
}

void Verifier::groups_of_split_count() {
  bool by_axes = false;
  std::vector<Dims> lists = group_lists(&by_axes);
  if (by_axes) lists = r_.groups(op_).lists;
  const std::int64_t count = r_.integer(op_, "split_count");
  if (lists.empty()) {
    fail("has no replica_groups; valid: groups of " + std::to_string(count) +
         " devices, as split_count says");
  }
  for (const Dims& row : lists) {
    if (std::int64_t(row.size()) == count) continue;
    fail("has a group of " + std::to_string(row.size()) +
         " devices; valid: " + std::to_string(count) + ", as split_count says");
  }
}

void Verifier::channel_type() {
  const Attribute* handle = op_.find("channel_handle");
  if (handle == nullptr) return;
  const Operation parts = r_.fields_of(op_, *handle);
  if (parts.find("type") == nullptr) return;
  const std::int64_t type = r_.integer(parts, "type");
  const bool host = r_.flag(op_, "is_host_transfer", false);
  const bool sends = op_.info->name == "stablehlo.send";
  const std::int64_t want = !host ? 1 : sends ? 2 : 3;
  if (type == want) return;
  fail("has a channel of type " + std::to_string(type) + " and is " + (host ? "a" : "no") +
       " host transfer; valid: type " + std::to_string(want) +
       (!host   ? " (device to device)"
        : sends ? " (device to host)"
                : " (host to device)"));
}

void Verifier::pairs_of_devices() {
  if (op_.find("source_target_pairs") == nullptr) return;
  const std::int64_t devices =
      r_.channel(op_) ? r_.module_->num_partitions : r_.module_->replica_count;
  Dims sources, targets;
  for (const Dims& pair : r_.integer_rows(op_, "source_target_pairs")) {
    if (pair.size() != 2) {
      fail("has a row of " + std::to_string(pair.size()) +
           " in source_target_pairs; valid: 2, a source and a target");
    }
    for (std::int64_t device : pair) {
      // A count of 1 may only mean that the module doesn't say it.
      if (device >= 0 && (device < devices || devices == 1)) continue;
      fail("has source_target_pairs that name device " + std::to_string(device) +
           "; valid: " + (devices == 1 ? "0 or more" : "0 to " + std::to_string(devices - 1)));
    }
    sources.push_back(pair[0]);
    targets.push_back(pair[1]);
  }
  for (bool source : {true, false}) {
    Dims& seen = source ? sources : targets;
    std::sort(seen.begin(), seen.end());
    const auto twice = std::adjacent_find(seen.begin(), seen.end());
    if (twice == seen.end()) continue;
    fail("has source_target_pairs with " + std::to_string(*twice) + " twice as a " +
         (source ? "source" : "target") + "; valid: each device once");
  }
}

void Verifier::async_body() {
  std::size_t count = 0;
  for (const OpInfo* info : op_.inside) {
    if (info->convert == &Reader::terminator) continue;
    ++count;
    static constexpr std::string_view kValid[] = {"stablehlo.all_gather",
                                                  "stablehlo.all_reduce",
                                                  "stablehlo.all_to_all",
                                                  "stablehlo.reduce_scatter",
                                                  "stablehlo.collective_permute",
                                                  "stablehlo.collective_broadcast",
                                                  "stablehlo.slice",
                                                  "stablehlo.dynamic_slice",
                                                  "stablehlo.dynamic_update_slice"};
    if (std::find(std::begin(kValid), std::end(kValid), info->name) != std::end(kValid)) continue;
    fail("has a region with " + std::string(info->name) +
         "; valid: an operation between devices or a slice");
  }
  if (count == 1) return;
  fail("has a region of " + std::to_string(count) + " operations; valid: one, and a return");
}

}  // namespace tessera::text
