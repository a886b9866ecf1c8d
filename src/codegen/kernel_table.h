// SPDX-License-Identifier: Apache-2.0
// The kernels of one program, by key: described while ways to run it are compared, made when one is
// settled.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/codegen/kernels/kernel_descriptor.h"
#include "src/codegen/kernels/reductions/combine.h"
#include "src/runtime/plan.h"

namespace tessera::codegen {

class KernelTable {
 public:
  /// The number of the kernel with this key: an earlier one, or this. Steps that run one kernel and
  /// differ in `access` have numbers of their own: one may read the first rows of a longer array.
  std::int32_t add(const KernelDescriptor& kernel);
  std::int32_t add(const CombineDescriptor& combiner);
  /// Has a task run that kernel.
  void set(runtime::KernelTask* task, const KernelDescriptor& kernel);
  const KernelDescriptor& at(std::int32_t number) const {
    return kernels_.list.at(std::size_t(number));
  }
  /// Null if there is none with this key.
  const KernelDescriptor* find(const std::string& key) const;

  /// Makes what the steps of `plan` run, and has them name it by its place in the plan.
  void materialize(runtime::Plan* plan);
  std::int64_t described() const { return std::int64_t(kernels_.size()); }
  std::int64_t made() const { return made_; }

 private:
  template <class Descriptor>
  struct ByKey {
    std::vector<Descriptor> list;
    std::unordered_map<std::string, std::int32_t> numbers;  // looked up, never walked

    std::int32_t add(const Descriptor& d) { return add(d, d.key); }
    std::int32_t add(const Descriptor& d, const std::string& key);
    const Descriptor* find(const std::string& key) const;
    std::size_t size() const { return list.size(); }
  };
  ByKey<KernelDescriptor> kernels_;
  ByKey<CombineDescriptor> combiners_;
  std::int64_t made_ = 0;
};

}  // namespace tessera::codegen
