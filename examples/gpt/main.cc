// SPDX-License-Identifier: Apache-2.0
// A character model trained on a 2 x 4 mesh: the batch is split over "data", heads and hidden units
// over "model". The code of the model is that for one device; only the weights' placement differs.
// The run is compared with one device, and with a run resumed from a checkpoint.
#include <common/checkpoint.h>
#include <common/optimizers.h>
#include <common/terminal.h>
#include <tessera/tessera.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <set>

#include "model.h"
#include "text.h"

using namespace tessera;

namespace {

constexpr std::int64_t kBatch = 16;

/// Characters as numbers, in the order of the alphabet.
class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) {
    const std::set<char> all(text.begin(), text.end());
    alphabet_.assign(all.begin(), all.end());
  }
  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> out;
    for (char c : text) out.push_back(std::int32_t(alphabet_.find(c)));
    return out;
  }
  std::string decode(const std::vector<std::int32_t>& numbers) const {
    std::string out;
    for (std::int32_t n : numbers) {
      out += n >= 0 && std::size_t(n) < alphabet_.size() ? alphabet_[std::size_t(n)] : '?';
    }
    return out;
  }
  /// Rounded up to a multiple of 8, so that a mesh axis can split it.
  std::int64_t vocabulary() const { return (std::int64_t(alphabet_.size()) + 7) / 8 * 8; }

 private:
  std::string alphabet_;
};

struct State {
  gpt::Params params;
  optim::AdamState<gpt::Params> optimizer;
};
TESSERA_TREE(State, params, optimizer)

const optim::AdamW kOptimizer{
    .rate = optim::warmup_cosine(3e-3f, 10, 1000, 0.1f),
    .decay = 0.01f,
    // Matrices decay, and the scales of norms don't: [layer, width] and [width].
    .decays = [](const Array& p) { return p.ndim() > 2; }};

std::pair<State, Array> train_step(const State& s, const Array& batch) {
  auto [loss, gradients] = value_and_grad(gpt::loss)(s.params, batch);
  auto [params, optimizer] =
      kOptimizer.update(s.params, optim::clip_by_global_norm(gradients, 1.0f), s.optimizer);
  return {State{params, optimizer}, loss};
}

/// Steps of training and what they need. The batch of a step is a function of the seed and of the
/// step's number, so a resumed run sees the batches that an uninterrupted one would.
class Trainer {
 public:
  Trainer(const std::vector<std::int32_t>& text, int seed)
      : key_(random::key(seed)), text_(array(text)) {}

  /// Trains from the state's step to `end`, on `batches`' devices; returns the losses.
  std::vector<float> run(State& state, int end, const std::optional<NamedSharding>& batches,
                         int log_every = 0) {
    std::vector<float> losses;
    const int begin = state.optimizer.step.item<int>();
    seconds_ = processor_seconds_ = 0;
    for (int i = begin; i < end; ++i) {
      const Array drawn = draw_(text_, random::fold_in(key_, i));
      const Array batch = batches ? device_put(drawn, *batches) : drawn;
      const auto start = std::chrono::steady_clock::now();
      const std::clock_t processor = std::clock();
      auto [next, loss] = step_(state, batch);
      state = next;
      losses.push_back(loss.item<float>());
      // The first step compiles.
      if (i > begin) {
        seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        processor_seconds_ += double(std::clock() - processor) / CLOCKS_PER_SEC;
      }
      if (log_every > 0 && (i % log_every == 0 || i + 1 == end)) {
        std::printf("step %4d  loss %.6f\n", i, double(losses.back()));
      }
      if (log_every > 0) terminal::progress(i + 1 - begin, end - begin, "");
    }
    steps_ = int(losses.size()) - 1;
    return losses;
  }
  /// Of the last run, its first step left out.
  std::string speed() const {
    char text[80];
    std::snprintf(text, sizeof text, "%.1f steps/s, %.1f ms of processor time per step",
                  steps_ / seconds_, processor_seconds_ * 1e3 / steps_);
    return text;
  }
  /// The compiled program of a step.
  Compiled program(const State& state, const NamedSharding& batches) {
    return step_.lower(state, device_put(draw_(text_, key_), batches)).compile();
  }

 private:
  static Array draw(const Array& text, const Array& key) {
    const Array starts = random::randint(key, {kBatch}, 0, int(text.size() - gpt::kContext));
    // vmap of a slice: one gather.
    return vmap([](Array t, Array at) { return dynamic_slice_in_dim(t, at, gpt::kContext + 1); },
                {.in_axes = axes_tree(nullptr, 0)})(text, starts);
  }

  Array key_, text_;
  decltype(jit(draw)) draw_ = jit(draw, {.name = "draw_batch"});
  decltype(jit(train_step)) step_ = jit(
      train_step, {.donate_argnums = {0}, .name = "train_step", .arg_names = {"state", "batch"}});
  double seconds_ = 0, processor_seconds_ = 0;
  int steps_ = 0;
};

void print_communication(const Compiled& program) {
  const CostAnalysis cost = program.cost_analysis();
  std::printf("one step communicates, per device, %.0f bytes:\n", cost.bytes_received);
  for (const auto& [kind, sum] : cost.kinds) {
    std::printf("  %-18s %10.0f bytes\n", kind.c_str(), sum.bytes);
  }
}

int run(const terminal::Flags& flags) {
  const int steps = flags.number("steps"), seed = flags.number("seed");
  const Mesh mesh = flags.mesh("mesh");
  const NamedSharding batches(mesh, P("data"));
  const Tokenizer tokenizer(kText);
  const std::vector<std::int32_t> text = tokenizer.encode(kText);
  terminal::Checks checks;

  const gpt::Params first = gpt::init(random::key(seed), tokenizer.vocabulary());
  const ShardingTree weights = gpt::shardings(mesh);
  // Adam's means lie as their parameters do; its counter is on all devices.
  const ShardingTree everything = tree(weights, tree(NamedSharding(mesh, P()), weights, weights));
  State state = device_put(State{first, kOptimizer.init(first)}, everything);
  if (!flags.text("resume").empty()) state = checkpoint::load(flags.text("resume"), state);
  const int begin = state.optimizer.step.item<int>(), end = begin + steps;

  Trainer trainer(text, seed);
  if (steps > 0) {
    const Compiled program = trainer.program(state, batches);
    std::printf("%zu characters, mesh %s\n", text.size(), mesh.to_string().c_str());
    print_communication(program);
    if (!flags.text("program").empty()) std::ofstream(flags.text("program")) << program.as_text();
  }

  // The first half, a checkpoint, the second half.
  const int middle = begin + steps / 2;
  std::vector<float> losses = trainer.run(state, middle, batches, flags.number("log"));
  const bool keep = !flags.text("checkpoint").empty();
  const std::filesystem::path folder =
      keep ? std::filesystem::path(flags.text("checkpoint"))
           : std::filesystem::temp_directory_path() /
                 ("gpt_" + std::to_string(broadcast_one_to_all(Array(int(getpid()))).item<int>()));
  checkpoint::save(folder, state);
  const std::vector<float> rest = trainer.run(state, end, batches, flags.number("log"));
  losses.insert(losses.end(), rest.begin(), rest.end());
  const std::string speed = trainer.speed();

  if (steps >= 20) {
    terminal::plot("loss", losses);
    std::printf("%s\n", speed.c_str());
    checks.expect(losses.back() < losses.front() - 0.5f, "the loss falls");
    // The checkpoint has every bit of the state, so its run goes on as this one did.
    State resumed = checkpoint::load(folder, state);
    const std::vector<float> again = trainer.run(resumed, middle + 5, batches);
    checks.expect(std::equal(again.begin(), again.end(), rest.begin()),
                  "a run resumed from a checkpoint gives the same losses, bit by bit");
  }
  if (steps >= 5 && begin == 0) {
    State single{first, kOptimizer.init(first)};
    const std::vector<float> alone = trainer.run(single, 5, {});
    checks.below(terminal::largest_difference(alone, {losses.begin(), losses.begin() + 5}), 1e-3,
                 "largest difference of five losses to those of one device");
  }
  if (keep) {
    checkpoint::save(folder, state);
  } else if (process_index() == 0) {
    std::filesystem::remove_all(folder);
  }

  if (steps > 0) {
    const auto sample = jit(
        [](gpt::Params p, Array window, Array key) { return gpt::sample(p, window, key, 160); });
    const Array start =
        array(std::vector<std::int32_t>(text.begin(), text.begin() + gpt::kContext));
    const Array drawn = sample(state.params, start, random::key(seed + 1));
    std::printf("a sample:\n%s\n", tokenizer.decode(drawn.to_vector<std::int32_t>()).c_str());
  }
  return checks.exit_code();
}

}  // namespace

int main(int argc, char** argv) try {
  return run(terminal::Flags(argc, argv, "Trains a small character model and samples from it.",
                             {{"steps", "40"},
                              {"mesh", "data=2,model=4"},
                              {"seed", "0"},
                              {"log", "10"},
                              {"resume", ""},
                              {"checkpoint", ""},
                              {"program", ""}}));
} catch (const tessera::Error& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
