// SPDX-License-Identifier: Apache-2.0
// Sets of active devices and their classes.
#include "src/runtime/active_set.h"

namespace tessera::runtime {

ActiveSet::ActiveSet(const Plan& plan, const std::vector<std::uint8_t>* local)
    : plan_(&plan), local_(local), lists_(local == nullptr ? 0 : plan.classes.size()) {}

ActiveSet::ActiveSet(const ActiveSet& outside, std::vector<std::uint8_t> on)
    : plan_(outside.plan_),
      local_(outside.local_),
      on_(std::move(on)),
      count_(0),
      lists_(plan_->classes.size()) {
  for (const std::uint8_t b : on_) count_ += b != 0;
}

ActiveSet::Classes ActiveSet::of(ClassesId id) const {
  const DeviceClasses& classes = plan_->classes[std::size_t(id)];
  if (everything() && local_ == nullptr) {
    const auto n = std::size_t(classes.count());
    return {{plan_->numbers.data(), n}, {classes.representative.data(), n}};
  }
  Lists& lists = lists_[std::size_t(id)];
  if (!lists.filled) {
    std::vector<std::uint8_t> seen(std::size_t(classes.count()));
    for (std::size_t d = 0; d < classes.class_of.size(); ++d) {
      const std::int32_t c = classes.class_of[d];
      if (!contains(std::int32_t(d)) || seen[std::size_t(c)] != 0) continue;
      if (local_ != nullptr && (*local_)[d] == 0) continue;
      seen[std::size_t(c)] = 1;
      lists.classes.push_back(c);
      lists.devices.push_back(std::int32_t(d));
    }
    lists.filled = true;
  }
  return {lists.classes, lists.devices};
}

void ActiveSet::list_all() const {
  for (std::size_t id = 0; id < lists_.size(); ++id) (void)of(ClassesId(id));
}

}  // namespace tessera::runtime
