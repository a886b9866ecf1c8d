// SPDX-License-Identifier: Apache-2.0
// The kernels of convolutions, those for special cases first.
#include "src/codegen/kernels/convolutions/convolution_table.h"

#include "src/codegen/kernels/convolutions/depthwise_convolution.h"
#include "src/codegen/kernels/convolutions/direct_convolution.h"
#include "src/codegen/kernels/convolutions/few_features_convolution.h"
#include "src/codegen/kernels/convolutions/grouped_convolution.h"
#include "src/codegen/kernels/convolutions/padded_convolution.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using Line = KernelLine<ConvolutionOperation, ConvolutionKernel>;

/// Products that use less of the machine are better made of patches.
constexpr double kLeastUse = 0.1;
/// Rows of positions share what they read of the filter.
constexpr double kOfSharing = 1.3;

bool has_no_kernel(const ConvolutionOperation& c) {
  return !is_one_of(kFloats + kComplex + kSigned + kUnsigned, c.type);
}

/// With output features last.
bool is_depthwise_of_floats(const ConvolutionOperation& c) {
  return (c.type == DType::f32 || c.type == DType::f64) && !c.ordered.window.empty() &&
         is_depthwise(c.ordered);
}

bool has_rows_of_positions(const ConvolutionOperation& c) {
  const auto batch = batch_products(c.ordered, c.type);
  if (!batch || batch->transposed) return false;
  const double use = padded_convolution_use(c.ordered, c.type);
  return use >= kLeastUse && kOfSharing * use >= batch->use() &&
         padded_convolution_fits(c.ordered, c.type);
}

bool has_rows_of_batch(const ConvolutionOperation& c) {
  const auto batch = batch_products(c.ordered, c.type);
  return batch && batch->use() >= kLeastUse;
}

constexpr Line kConvolutions[] = {
    {kOnEvaluator, has_no_kernel, ConvolutionKernel::none},
    {{"convolution/nothing", "the result has no elements"},
     [](const ConvolutionOperation& c) { return !c.has_elements; },
     ConvolutionKernel::nothing},
    {{"convolution/product", "windows of one position: one product of matrices"},
     [](const ConvolutionOperation& c) { return c.one_position; },
     ConvolutionKernel::product},
    {{"convolution/grouped",
      "groups of few features, in order: several are side by side in a vector, or one is a vector"},
     [](const ConvolutionOperation& c) { return has_groups_in_vectors(c.ordered, c.type); },
     ConvolutionKernel::grouped},
    {{"convolution/few-features",
      "fewer output features than a vector has lanes: vectors are of positions"},
     [](const ConvolutionOperation& c) {
       return !is_depthwise(c.given) && has_few_features(c.given, c.type);
     },
     ConvolutionKernel::few_features},
    {{"convolution/depthwise", "each feature by itself: vectors are of features"},
     is_depthwise_of_floats,
     ConvolutionKernel::depthwise},
    {{"convolution/padded", "rows of products are positions, for which the filter is read once"},
     has_rows_of_positions,
     ConvolutionKernel::padded},
    {{"convolution/direct",
      "rows of products are the batch: positions are few, as in derivatives by filters"},
     has_rows_of_batch,
     ConvolutionKernel::direct},
    {{"convolution/patches",
      "no products of operands as they stand fill vectors: what windows see is copied"},
     always<ConvolutionOperation>,
     ConvolutionKernel::patches},
};

}  // namespace

const KernelLine<ConvolutionOperation, ConvolutionKernel>& choose_convolution(
    const ConvolutionOperation& convolution) {
  return choose(kConvolutions, convolution);
}

KernelFamily convolution_family() { return family_of("convolution", kConvolutions); }

}  // namespace tessera::codegen
