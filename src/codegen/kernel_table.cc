// SPDX-License-Identifier: Apache-2.0
// Kernels by key, and how a settled plan gets its own.
#include "src/codegen/kernel_table.h"

#include "src/base/check.h"
#include "src/base/key_writer.h"
#include "src/base/threads/task_pool.h"
#include "src/codegen/kernels/code/embedded_code.h"
#include "src/runtime/plan_walk.h"

namespace tessera::codegen {

template <class Descriptor>
std::int32_t KernelTable::ByKey<Descriptor>::add(const Descriptor& d, const std::string& key) {
  TESSERA_CHECK(!d.key.empty() && d.make != nullptr, "a kernel without a key or a maker");
  const auto [it, added] = numbers.try_emplace(key, std::int32_t(list.size()));
  if (added) list.push_back(d);
  return it->second;
}

template <class Descriptor>
const Descriptor* KernelTable::ByKey<Descriptor>::find(const std::string& key) const {
  const auto it = numbers.find(key);
  return it == numbers.end() ? nullptr : &list[std::size_t(it->second)];
}

std::int32_t KernelTable::add(const KernelDescriptor& kernel) {
  const std::int32_t n = kernels_.add(kernel);
  if (at(n).access == kernel.access) return n;
  KeyWriter key(kernel.key);
  key.add_all(kernel.access.results, kernel.access.groups);
  for (const Access& a : kernel.access.operands) key.add_all(a.share, a.preparation);
  return kernels_.add(kernel, key.take());
}
void KernelTable::set(runtime::KernelTask* task, const KernelDescriptor& kernel) {
  task->kernel = add(kernel);
  task->label = kernel.label;
  task->units = kernel.units;
  task->nanoseconds = kernel.nanoseconds;
}
std::int32_t KernelTable::add(const CombineDescriptor& combiner) {
  return combiners_.add(combiner);
}
const KernelDescriptor* KernelTable::find(const std::string& key) const {
  return kernels_.find(key);
}

namespace {

/// Places of those that are used, in the order of their first use.
class UsedEntries {
 public:
  explicit UsedEntries(std::size_t described) : places_(described, -1) {}

  void place(std::int32_t* number) {
    std::int32_t& place = places_.at(std::size_t(*number));
    if (place < 0) {
      place = std::int32_t(numbers_.size());
      numbers_.push_back(std::size_t(*number));
    }
    *number = place;
  }

  /// All at the same time: some are compiled.
  template <class Descriptor, class Made>
  void make(const std::vector<Descriptor>& all, std::vector<Made>* made) const {
    made->resize(numbers_.size());
    const CodeSource* const source = code_source();
    parallel_for(std::int64_t(numbers_.size()), [&](std::int64_t n) {
      const CodeScope scope(source);
      (*made)[std::size_t(n)] = all[numbers_[std::size_t(n)]].make();
    });
  }

 private:
  std::vector<std::int32_t> places_;
  std::vector<std::size_t> numbers_;
};

}  // namespace

void KernelTable::materialize(runtime::Plan* plan) {
  UsedEntries kernels(kernels_.size());
  UsedEntries combiners(combiners_.size());
  runtime::for_each_step(plan->entry, [&](runtime::Step& step) {
    if (auto* task = runtime::task_of(step)) {
      kernels.place(&task->kernel);
    } else if (auto* exchange = std::get_if<runtime::Exchange>(&step.what)) {
      if (exchange->combiner < 0) return;
      combiners.place(&exchange->combiner);
    }
  });
  kernels.make(kernels_.list, &plan->kernels);
  combiners.make(combiners_.list, &plan->combiners);
  made_ += std::int64_t(plan->kernels.size());
}

}  // namespace tessera::codegen
