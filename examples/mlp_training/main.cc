// SPDX-License-Identifier: Apache-2.0
// A two-layer network on handwritten digits, trained on a 2 x 4 mesh: the batch is split over
// "data", the hidden layer over "model". The code is that of a program for one device.
#include <common/optimizers.h>
#include <common/terminal.h>
#include <tessera/tessera.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace tessera;

namespace {

constexpr std::int64_t kPixels = 64, kHidden = 128, kClasses = 10;
constexpr std::int64_t kBatch = 100, kTrain = 1500, kEpochs = 40;

const optim::Sgd kOptimizer{.rate = optim::constant(0.1f), .momentum = 0.8f};

struct Params {
  Array w1, b1, w2, b2;
};
TESSERA_TREE(Params, w1, b1, w2, b2)

struct Digits {
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

/// One image per line: 64 pixels from 0 to 16, and a label.
Digits read_digits(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw IoError("can't read " + path);
  std::vector<std::vector<float>> rows;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string field;
    rows.emplace_back();
    while (std::getline(fields, field, ',')) rows.back().push_back(std::stof(field));
  }
  // The file is ordered by writer: a fixed shuffle mixes them.
  Digits out;
  for (std::int32_t i :
       random::permutation(random::key(7), std::int64_t(rows.size())).to_vector<std::int32_t>()) {
    const std::vector<float>& row = rows[std::size_t(i)];
    for (std::int64_t pixel = 0; pixel < kPixels; ++pixel) {
      out.pixels.push_back(row[std::size_t(pixel)] / 16);
    }
    out.labels.push_back(std::int32_t(row.back()));
  }
  return out;
}

Params init_params() {
  const Array keys = random::split(random::key(0), 2);
  const Array k1 = reshape(slice_in_dim(keys, 0, 1), {2});
  const Array k2 = reshape(slice_in_dim(keys, 1, 2), {2});
  return {random::normal(k1, {kPixels, kHidden}) * std::sqrt(2.0f / kPixels), zeros({kHidden}),
          random::normal(k2, {kHidden, kClasses}) * std::sqrt(2.0f / kHidden), zeros({kClasses})};
}

Array logits_of(const Params& p, const Array& x) {
  return matmul(relu(matmul(x, p.w1) + p.b1), p.w2) + p.b2;
}

Array loss_of(const Params& p, const Array& x, const Array& labels) {
  return -mean(sum(one_hot(labels, kClasses) * log_softmax(logits_of(p, x)), -1));
}

using Velocity = optim::SgdState<Params>;

/// One step of gradient descent with momentum.
std::tuple<Params, Velocity, Array> train_step(const Params& p, const Velocity& v, const Array& x,
                                               const Array& labels) {
  const auto [loss, gradient] = value_and_grad(loss_of)(p, x, labels);
  const auto [next, velocity] = kOptimizer.update(p, gradient, v);
  return {next, velocity, loss};
}

struct Run {
  Params params;
  std::vector<float> losses;
};

Run train(Params p, const Digits& digits, const std::function<Array(const Array&)>& place_batch) {
  auto step = jit(train_step, {.donate_argnums = {0, 1},
                               .name = "train_step",
                               .arg_names = {"params", "velocity", "x", "labels"}});
  Velocity v = kOptimizer.init(p);
  Run run;
  const std::int64_t batches = kTrain / kBatch;
  for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    float total = 0;
    for (std::int64_t b = 0; b < batches; ++b) {
      const auto first = digits.pixels.begin() + b * kBatch * kPixels;
      const Array x = place_batch(
          array(std::vector<float>(first, first + kBatch * kPixels), {kBatch, kPixels}));
      const auto label = digits.labels.begin() + b * kBatch;
      const Array y = place_batch(array(std::vector<std::int32_t>(label, label + kBatch)));
      Array loss;
      std::tie(p, v, loss) = step(p, v, x, y);
      total += loss.item<float>();
      if (epoch == 0 && b == 0 && x.sharding().num_devices() > 1) {
        std::cout << "collectives of one step (bytes that one device receives):\n";
        for (const CollectiveInfo& c : step.lower(p, v, x, y).compile().collectives()) {
          std::printf("  %-18s %-14s %-28s %10.0f\n", c.kind.c_str(), c.op.c_str(),
                      c.location.c_str(), c.bytes_received);
        }
      }
    }
    run.losses.push_back(total / float(batches));
    terminal::progress(int(epoch + 1), int(kEpochs), "loss " + std::to_string(run.losses.back()));
  }
  run.params = p;
  return run;
}

double accuracy(const Params& p, const Digits& digits) {
  const std::int64_t n = std::int64_t(digits.labels.size()) - kTrain;
  const Array x =
      array(std::vector<float>(digits.pixels.begin() + kTrain * kPixels, digits.pixels.end()),
            {n, kPixels});
  const Array y =
      array(std::vector<std::int32_t>(digits.labels.begin() + kTrain, digits.labels.end()));
  const Array guess =
      jit([](const Params& q, const Array& v) { return argmax(logits_of(q, v), -1); })(p, x);
  return mean(guess == y).item<float>();
}

}  // namespace

int main(int argc, char** argv) try {
  const Digits digits =
      read_digits(argc > 1 ? argv[1] : std::string(TESSERA_EXAMPLE_DIR) + "/digits.csv");
  const Mesh mesh = make_mesh({{"data", 2}, {"model", 4}});
  const Params start = init_params();
  const Params placed{
      device_put(start.w1, {mesh, P(nullptr, "model")}), device_put(start.b1, {mesh, P("model")}),
      device_put(start.w2, {mesh, P("model", nullptr)}), device_put(start.b2, {mesh, P()})};
  std::cout << "the first layer's weights on " << mesh.to_string() << ":\n";
  visualize_array_sharding(placed.w1);
  const Run sharded = train(placed, digits, [&](const Array& a) {
    return device_put(a, {mesh, P("data")});
  });
  const double right = accuracy(sharded.params, digits);

  const Run single = train(start, digits, [](const Array& a) { return a; });
  const float difference = terminal::largest_difference(single.losses, sharded.losses);
  terminal::plot("loss", sharded.losses);
  std::printf("loss %.4f -> %.4f, largest difference to one device %.2g\n",
              double(sharded.losses.front()), double(sharded.losses.back()), double(difference));
  terminal::Checks checks;
  std::printf("accuracy on %lld held-out digits: %.4f\n",
              static_cast<long long>(digits.labels.size()) - static_cast<long long>(kTrain), right);
  checks.below(1 - right, 0.05, "part of the held-out digits that is read wrongly");
  checks.below(difference, 1e-4, "largest difference of losses to those of one device");
  return checks.exit_code();
} catch (const tessera::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
