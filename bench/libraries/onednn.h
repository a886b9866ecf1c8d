// SPDX-License-Identifier: Apache-2.0
// Primitives of oneDNN with operands that were put in the order that they want ahead.
#pragma once

#include <dnnl.hpp>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bench/libraries/case.h"

namespace tessera::bench {

inline dnnl::engine& onednn_engine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
inline dnnl::stream& onednn_stream() {
  static dnnl::stream stream(onednn_engine());
  return stream;
}

/// The numbers at `from`, which lie as `plain` says, as `wanted` says.
inline dnnl::memory onednn_ordered(const dnnl::memory::desc& plain, const void* from,
                                   const dnnl::memory::desc& wanted) {
  dnnl::memory in(plain, onednn_engine()), out(wanted, onednn_engine());
  std::memcpy(in.get_data_handle(), from, plain.get_size());
  dnnl::reorder(in, out).execute(onednn_stream(), in, out);
  onednn_stream().wait();
  return out;
}

/// What is multiplied or convolved: `plain` is how the operands lie for others.
struct OneDnnOperands {
  dnnl::memory::desc source, weights, result;
  const void *source_data, *weights_data;
};

/// A primitive of the kind of P on operands in the orders that `made` wants. Only its execution is
/// timed. R is the type of the result's numbers.
template <class P, class R>
Peer onednn_peer(std::string name, const typename P::primitive_desc& made,
                 const OneDnnOperands& plain) {
  struct State {
    P primitive;
    std::unordered_map<int, dnnl::memory> arguments;
    dnnl::memory result;
  };
  auto state = std::make_shared<State>();
  state->primitive = P(made);
  state->result = dnnl::memory(made.dst_desc(), onednn_engine());
  state->arguments = {
      {DNNL_ARG_SRC, onednn_ordered(plain.source, plain.source_data, made.src_desc())},
      {DNNL_ARG_WEIGHTS, onednn_ordered(plain.weights, plain.weights_data, made.weights_desc())},
      {DNNL_ARG_DST, state->result}};
  return {std::move(name),
          [state] {
            state->primitive.execute(onednn_stream(), state->arguments);
            onednn_stream().wait();
          },
          [state, to = plain.result] {
            const dnnl::memory out =
                onednn_ordered(state->result.get_desc(), state->result.get_data_handle(), to);
            const std::size_t count = to.get_size() / sizeof(R);
            return as_doubles(static_cast<const R*>(out.get_data_handle()), std::int64_t(count));
          }};
}

}  // namespace tessera::bench
