// SPDX-License-Identifier: Apache-2.0
// Shared lists of devices, and the search in them.
#include "src/sharding/axes/device_ids.h"

#include <algorithm>
#include <limits>

namespace tessera {

DeviceIds::DeviceIds(std::vector<std::int64_t> ids) {
  if (!ids.empty()) list_ = std::make_shared<const List>(std::move(ids));
}

const std::vector<std::int64_t>& DeviceIds::ids() const {
  static const std::vector<std::int64_t> none;
  return list_ ? list_->ids : none;
}

void DeviceIds::List::fill_positions() const {
  const auto [least, greatest] = std::minmax_element(ids.begin(), ids.end());
  const auto n = std::int64_t(ids.size());
  if (*least < 0 || *greatest >= 4 * n + 64 || n > std::numeric_limits<std::int32_t>::max()) return;
  positions.assign(std::size_t(*greatest) + 1, -1);
  for (std::size_t p = ids.size(); p-- > 0;) positions[std::size_t(ids[p])] = std::int32_t(p);
}

std::int64_t DeviceIds::position_of(std::int64_t id) const {
  if (!list_) return -1;
  const List& list = *list_;
  std::call_once(list.once, [&] { list.fill_positions(); });
  if (list.positions.empty()) {
    const auto it = std::find(list.ids.begin(), list.ids.end(), id);
    return it == list.ids.end() ? -1 : it - list.ids.begin();
  }
  if (id < 0 || id >= std::int64_t(list.positions.size())) return -1;
  return list.positions[std::size_t(id)];
}

}  // namespace tessera
