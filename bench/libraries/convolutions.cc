// SPDX-License-Identifier: Apache-2.0
// Convolutions of well-known networks, by oneDNN. Filters are in its own order, as they are
// constant. Images have features last, as those of ours do; in "oneDNN, blocked" they, too, are in
// an order of its own, as within a network of nothing but its convolutions.
#include <memory>

#include "bench/libraries/case.h"
#include "bench/libraries/onednn.h"

namespace tessera::bench {
namespace {

using Tag = dnnl::memory::format_tag;

/// Of square images.
struct Layer {
  const char* network;
  std::int64_t batch, size, in, out, window;
  std::int64_t stride = 1, groups = 1, dilation = 1;
  bool padded = true;  ///< by half a window
};

constexpr Layer kLayers[] = {
    {"ResNet stem", 1, 224, 3, 64, 7, 2},
    {"ResNet", 1, 56, 64, 64, 3},
    {"ResNet", 1, 56, 64, 256, 1},
    {"ResNet", 1, 56, 256, 64, 1},
    {"ResNet", 1, 56, 256, 512, 1, 2},
    {"ResNet", 1, 56, 128, 128, 3, 2},
    {"ResNet", 1, 28, 128, 128, 3},
    {"ResNet", 1, 28, 512, 128, 1},
    {"ResNet", 1, 14, 256, 256, 3},
    {"ResNet", 1, 14, 1024, 256, 1},
    {"ResNet", 1, 7, 512, 512, 3},
    {"ResNet", 1, 7, 512, 2048, 1},
    {"ResNet", 8, 56, 64, 64, 3},
    {"ResNet", 8, 28, 128, 128, 3},
    {"ResNet", 8, 14, 256, 256, 3},
    {"ResNet", 8, 7, 512, 512, 3},
    {"ResNet", 2, 28, 128, 512, 1},
    {"VGG", 1, 224, 3, 64, 3},
    {"VGG", 1, 112, 128, 128, 3},
    {"VGG", 1, 56, 256, 256, 3},
    {"VGG", 1, 14, 512, 512, 3},
    {"MobileNet stem", 4, 224, 3, 32, 3, 2},
    {"MobileNet depthwise", 1, 112, 32, 32, 3, 1, 32},
    {"MobileNet depthwise", 1, 112, 96, 96, 3, 2, 96},
    {"MobileNet depthwise", 2, 56, 144, 144, 3, 1, 144},
    {"MobileNet depthwise", 4, 14, 384, 384, 3, 1, 384},
    {"MobileNet depthwise", 8, 7, 960, 960, 3, 1, 960},
    {"MobileNet", 1, 56, 96, 24, 1},
    {"MobileNet", 4, 14, 384, 64, 1},
    {"MobileNet", 1, 7, 320, 1280, 1},
    {"EfficientNet depthwise", 1, 56, 144, 144, 5, 2, 144},
    {"EfficientNet depthwise", 2, 14, 672, 672, 5, 1, 672},
    {"EfficientNet depthwise", 4, 7, 1152, 1152, 5, 1, 1152},
    {"EfficientNet", 1, 7, 1152, 320, 1},
    {"ConvNeXt stem", 2, 224, 3, 96, 4, 4, 1, 1, false},
    {"ConvNeXt depthwise", 1, 56, 96, 96, 7, 1, 96},
    {"ConvNeXt depthwise", 2, 28, 192, 192, 7, 1, 192},
    {"ConvNeXt depthwise", 4, 14, 384, 384, 7, 1, 384},
    {"ConvNeXt depthwise", 8, 7, 768, 768, 7, 1, 768},
    {"ConvNeXt", 1, 56, 96, 192, 2, 2, 1, 1, false},
    {"ConvNeXt", 1, 56, 96, 384, 1},
    {"ResNeXt grouped", 1, 56, 128, 128, 3, 1, 32},
    {"ResNeXt grouped", 2, 14, 512, 512, 3, 1, 32},
    {"ShuffleNet grouped", 1, 28, 240, 240, 1, 1, 3},
    {"DeepLab dilated", 1, 28, 256, 256, 3, 1, 1, 2},
    {"U-Net", 1, 128, 32, 32, 3},
};

std::int64_t padding_of(const Layer& l) { return l.padded ? l.dilation * (l.window - 1) / 2 : 0; }

void add_onednn(const Layer& l, std::int64_t size, const float* image, const float* filter,
                std::vector<Peer>* peers) {
  using Convolution = dnnl::convolution_forward;
  const auto type = dnnl::memory::data_type::f32;
  const dnnl::memory::dims source{l.batch, l.in, l.size, l.size},
      result{l.batch, l.out, size, size};
  dnnl::memory::dims weights{l.out / l.groups, l.in / l.groups, l.window, l.window};
  if (l.groups > 1) weights.insert(weights.begin(), l.groups);
  const OneDnnOperands plain{{source, type, Tag::nhwc},
                             {weights, type, l.groups > 1 ? Tag::hwigo : Tag::hwio},
                             {result, type, Tag::nhwc},
                             image,
                             filter};
  const dnnl::memory::dims strides{l.stride, l.stride}, dilations{l.dilation - 1, l.dilation - 1};
  const dnnl::memory::dims padding{padding_of(l), padding_of(l)};
  for (const bool blocked : {false, true}) {
    const Tag images = blocked ? Tag::any : Tag::nhwc;
    const Convolution::primitive_desc made(
        Convolution::desc(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
                          {source, type, images}, {weights, type, Tag::any}, {result, type, images},
                          strides, dilations, padding, padding),
        onednn_engine(), true);
    if (!made) continue;
    peers->push_back(
        onednn_peer<Convolution, float>(blocked ? "oneDNN, blocked" : "oneDNN", made, plain));
  }
}

Problem problem(const Layer& l) {
  const std::int64_t reach = l.dilation * (l.window - 1) + 1, padding = padding_of(l);
  const std::int64_t size = (l.size + 2 * padding - reach) / l.stride + 1;
  const auto image = some_numbers<float>(1, l.batch * l.size * l.size * l.in);
  const auto filter = some_numbers<float>(2, l.window * l.window * l.in / l.groups * l.out);
  Problem out;
  out.inputs = {array(image, {l.batch, l.size, l.size, l.in}),
                array(filter, {l.window, l.window, l.in / l.groups, l.out})};
  ConvNdOptions options;
  options.strides = {l.stride, l.stride};
  options.padding = {{padding, padding}, {padding, padding}};
  options.kernel_dilation = {l.dilation, l.dilation};
  options.groups = l.groups;
  out.ours = [options](const Arrays& v) { return conv2d(v[0], v[1], options); };
  out.tolerance = 1e-5;
  add_onednn(l, size, image.data(), filter.data(), &out.peers);
  return out;
}

std::string name_of(const Layer& l) {
  const auto text = [](std::int64_t n) { return std::to_string(n); };
  std::string out = "convolutions ";
  out += l.groups == l.in ? "depthwise"
         : l.groups > 1   ? "grouped"
         : l.window == 1  ? "1x1"
         : l.in < 4       ? "stems"
                          : "others";
  out += "/" + std::string(l.network) + " " + text(l.batch) + "x" + text(l.size) + "^2, " +
         text(l.in) + " to " + text(l.out) + ", " + text(l.window) + "^2";
  if (l.stride > 1) out += " / " + text(l.stride);
  return out;
}

}  // namespace

std::vector<Case> convolutions() {
  std::vector<Case> out;
  for (const Layer& l : kLayers) {
    out.push_back({name_of(l), [&l](int) { return problem(l); }});
  }
  return out;
}

}  // namespace tessera::bench
