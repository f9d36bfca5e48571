// Feeds damaged recordings to everything that reads what a server sends.
//
//   ignite_fuzz SEEDS COUNT [SEED]           COUNT damaged inputs, made from the recordings in the folder
//   SEEDS ignite_fuzz SEEDS replay NUMBER [SEED]   only the input of this number again ignite_fuzz --fault
//   overflow|undefined|allocation|memory|busy|leak   does what must be noticed
//
// An input may be refused with an Error; anything else that happens is a defect: a crash, a report of a
// sanitizer, an allocation or memory in use above the limits below, a parser that is busy for kLimitSeconds.
// Built with AddressSanitizer and UndefinedBehaviorSanitizer, which end the process.
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "native/wire/buffer.h"
#include "native/wire/error.h"
#include "tests/fuzz/native/damage.h"
#include "tests/fuzz/native/parsers.h"

// Of the sanitizers' runtime library, whose headers not every compiler brings.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_allocation)(const volatile void*,
                                                                               std::size_t),
                                                         void (*on_release)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void* memory);
extern "C" void __sanitizer_set_death_callback(void (*callback)());

namespace ignite_strategy {
namespace {

// No allocation is larger than the first step that a connection takes for a message (wire/connection.cc) and
// kFactor times the input, and all of them together are no more than kTogether times that.
constexpr std::size_t kBase = 4 << 20, kFactor = 64, kTogether = 4;
// Of processor time, so that a busy machine is not taken for a busy parser; and of the clock, for one that
// waits.
constexpr unsigned kLimitSeconds = 20, kWaitSeconds = 900;

// How many of kAllShares inputs are of each kind: a whole conversation takes longer than one parser.
constexpr std::size_t kShares[kKinds] = {0, 20, 4, 4, 4, 2, 4, 1, 3, 1, 1, 1, 1}, kAllShares = 46;

struct Seed {
  int kind = 0;
  std::vector<Bytes> parts;  // of rows: the columns, the rows, then type id and metadata of each type
};

// What is being done, for the report when it goes wrong.
std::uint64_t current_number = 0;
std::size_t current_size = 0;
std::size_t largest_allocation = 0;
std::int64_t in_use = 0, most_in_use = 0;
bool parsing = false;

[[noreturn]] void TooMuch(const char* what, std::size_t size) {
  parsing = false;
  std::fprintf(stderr, "input number %llu, of %zu bytes: %s %zu bytes\n",
               static_cast<unsigned long long>(current_number), current_size, what, size);
  std::abort();
}

void OnAllocation(const volatile void*, std::size_t size) {
  if (!parsing) return;
  const std::size_t limit = kBase + kFactor * current_size;
  largest_allocation = std::max(largest_allocation, size);
  if (size > limit) TooMuch("an allocation of", size);
  in_use += static_cast<std::int64_t>(size);
  most_in_use = std::max(most_in_use, in_use);
  if (in_use > static_cast<std::int64_t>(kTogether * limit)) TooMuch("memory in use:", kTogether * limit);
}

void OnRelease(const volatile void* memory) {
  if (parsing && memory != nullptr)
    in_use -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory));
}

void OnDeath() {
  std::fprintf(stderr, "it was input number %llu\n", static_cast<unsigned long long>(current_number));
}

void OnAlarm(int) {
  static const char text[] = "a parser is busy for too long\n";
  if (write(2, text, sizeof text - 1) < 0) _exit(2);
  OnDeath();
  std::abort();
}

// From now on; 0 = no limit.
void Limit(unsigned processor_seconds, unsigned seconds) {
  const itimerval timer{{0, 0}, {static_cast<time_t>(processor_seconds), 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
  alarm(seconds);
}

void Watch() {
  __sanitizer_install_malloc_and_free_hooks(OnAllocation, OnRelease);
  __sanitizer_set_death_callback(OnDeath);
  std::signal(SIGALRM, OnAlarm);
  std::signal(SIGPROF, OnAlarm);
}

// While it lives, memory is counted.
class Counted {
 public:
  explicit Counted(std::size_t size) {
    current_size = size;
    in_use = 0;
    parsing = true;
  }
  ~Counted() { parsing = false; }
};

// Shows that what must not happen is noticed.
int Fault(const std::string& what) {
  Watch();
  const Counted counted(0);
  if (what == "overflow") {
    const Bytes bytes(8);
    volatile std::size_t at = 8;
    volatile int sum = bytes.data()[at];
    (void)sum;
  } else if (what == "undefined") {
    volatile std::int32_t number = 0x7fffffff;
    number = number + 1;
  } else if (what == "allocation") {
    delete[] new std::uint8_t[kBase + 1];
  } else if (what == "memory") {
    std::vector<Bytes> all;
    for (std::size_t i = 0; i <= kTogether; ++i) all.emplace_back(kBase);
  } else if (what == "busy") {
    Limit(1, kWaitSeconds);
    for (volatile int i = 0;; i = 1 - i) {
    }
  } else if (what == "leak") {
    Bytes* volatile lost = new Bytes(1000);
    lost = nullptr;
  } else {
    return 2;
  }
  return 0;
}

Seed Load(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const Bytes data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Reader reader(data.data(), data.size());
  Seed seed;
  seed.kind = reader.Get<std::int32_t>();
  while (reader.left() > 0) {
    const std::size_t size = reader.Count(1);
    const std::uint8_t* bytes = reader.Bytes(size);
    seed.parts.emplace_back(bytes, bytes + size);
  }
  if (seed.kind < 1 || seed.kind >= kKinds || seed.parts.size() < LeastParts(seed.kind)) {
    throw Error(Code::kInvalidArgument, path.string() + " is no recording");
  }
  return seed;
}

struct Tally {
  std::uint64_t inputs = 0, accepted = 0;
};

std::size_t SizeOf(const std::vector<Bytes>& parts) {
  std::size_t size = 0;
  for (const Bytes& part : parts) size += part.size();
  return size;
}

// A recording of a kind that is chosen by its share, of those that there are.
const Seed& Choose(const std::vector<Seed>& seeds, Chance& chance) {
  while (true) {
    std::size_t share = chance.Below(kAllShares);
    int kind = 1;
    while (share >= kShares[kind]) share -= kShares[kind++];
    // Recordings are in the order of their kinds.
    const auto first = std::lower_bound(seeds.begin(), seeds.end(), kind,
                                        [](const Seed& seed, int than) { return seed.kind < than; });
    const auto last = std::find_if(first, seeds.end(), [&](const Seed& seed) { return seed.kind != kind; });
    if (first != last)
      return *(first + static_cast<std::ptrdiff_t>(chance.Below(static_cast<std::size_t>(last - first))));
  }
}

// One input. The same number and seed make the same input.
void One(const std::vector<Seed>& seeds, std::uint64_t number, std::uint64_t seed,
         std::vector<Tally>& tallies) {
  current_number = number;
  Chance chance(seed * 1'000'003 + number);
  for (int i = 0; i < 4; ++i) chance.Next();
  const Seed& original = Choose(seeds, chance);
  const std::vector<Bytes>& others = seeds[chance.Below(seeds.size())].parts;
  const Bytes& other = others[std::min<std::size_t>(1 + chance.Below(others.size()), others.size() - 1)];
  Tally& tally = tallies[static_cast<std::size_t>(original.kind)];
  ++tally.inputs;
  try {
    if (IsConversation(original.kind)) {
      const Counted counted(SizeOf(original.parts) + other.size());
      Talk(original.kind, original.parts, 1 + chance.Below((original.parts.size() - 1) / 2), other, chance);
    } else {
      std::vector<Bytes> parts = original.parts;
      // Mostly the rows; now and then the description of the columns, or the metadata of a type.
      std::size_t part = original.kind == kRows ? 1 : 0;
      if (original.kind == kRows && chance.Below(8) == 0) part = chance.Below(parts.size());
      Damage(parts[part], other, chance);
      const Counted counted(SizeOf(parts));
      if (original.kind == kRows && part == 0) {
        ParseColumns(parts[0]);
      } else {
        Parse(original.kind, parts);
      }
    }
    ++tally.accepted;
  } catch (const Error&) {
    // What a parser is for.
  }
}

// As they were recorded, all must be good.
void CheckSeed(const Seed& seed) {
  const Counted counted(SizeOf(seed.parts));
  Chance chance(1);
  if (IsConversation(seed.kind)) {
    Talk(seed.kind, seed.parts, 0, {}, chance);
  } else {
    Parse(seed.kind, seed.parts);
  }
}

// What all processes together have done, in memory that they share.
struct Sums {
  std::atomic<std::uint64_t> inputs[kKinds], accepted[kKinds];
  std::atomic<std::uint64_t> largest{0}, most{0};
};

void Raise(std::atomic<std::uint64_t>& sum, std::uint64_t value) {
  std::uint64_t seen = sum;
  while (seen < value && !sum.compare_exchange_weak(seen, value)) {
  }
}

// Every `step`th input from `first` on.
void Run(const std::vector<Seed>& seeds, std::uint64_t first, std::uint64_t end, std::uint64_t step,
         std::uint64_t seed, Sums& sums) {
  std::vector<Tally> tallies(kKinds);
  std::uint64_t count = 0;
  for (std::uint64_t i = first; i < end; i += step) {
    if (count++ % 256 == 0) Limit(kLimitSeconds, kWaitSeconds);
    One(seeds, i, seed, tallies);
  }
  Limit(0, 0);
  for (std::size_t kind = 1; kind < kKinds; ++kind) {
    sums.inputs[kind] += tallies[kind].inputs;
    sums.accepted[kind] += tallies[kind].accepted;
  }
  Raise(sums.largest, largest_allocation);
  Raise(sums.most, static_cast<std::uint64_t>(most_in_use));
}

// A process for each processor; the first that ends with anything but success ends them all.
int RunAll(const std::vector<Seed>& seeds, std::uint64_t count, std::uint64_t seed, Sums& sums) {
  const unsigned processes = std::max(1u, std::thread::hardware_concurrency());
  std::vector<pid_t> children;
  for (unsigned i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child < 0) throw Error(Code::kResourceExhausted, "no more processes");
    if (child == 0) {
      Run(seeds, i, count, processes, seed, sums);
      std::exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (std::size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    wait(&status);
    if (status == 0 || failed != 0) continue;
    failed = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    for (const pid_t child : children) kill(child, SIGTERM);
  }
  return failed;
}

void Print(const Sums& sums, std::size_t seeds, double seconds, std::uint64_t seed) {
  std::uint64_t total = 0;
  for (std::size_t kind = 1; kind < kKinds; ++kind) {
    const std::uint64_t inputs = sums.inputs[kind], accepted = sums.accepted[kind];
    total += inputs;
    std::printf("%-22s %10llu damaged inputs, %llu of them still readable\n", kNames[kind],
                static_cast<unsigned long long>(inputs), static_cast<unsigned long long>(accepted));
  }
  std::printf("%llu inputs from %zu recordings in %.1f s (%.0f per second), seed %llu\n",
              static_cast<unsigned long long>(total), seeds, seconds, static_cast<double>(total) / seconds,
              static_cast<unsigned long long>(seed));
  std::printf(
      "largest allocation %llu bytes (limit: %zu MiB + %zu times the input); most memory in use %llu bytes "
      "(limit: %zu times that)\n",
      static_cast<unsigned long long>(sums.largest), kBase >> 20, kFactor,
      static_cast<unsigned long long>(sums.most), kTogether);
}

int Main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--fault") return Fault(argv[2]);
  if (argc < 3) {
    std::fprintf(stderr, "ignite_fuzz SEEDS COUNT [SEED] | SEEDS replay NUMBER [SEED] | --fault KIND\n");
    return 2;
  }
  std::vector<Seed> seeds;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) seeds.push_back(Load(path));
  if (seeds.empty()) throw Error(Code::kInvalidArgument, std::string("no recording in ") + argv[1]);
  Watch();
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    try {
      CheckSeed(seeds[i]);
    } catch (const Error& error) {
      throw Error(error.code(), paths[i].string() + " cannot be read as it is: " + error.message());
    }
  }
  std::stable_sort(seeds.begin(), seeds.end(),
                   [](const Seed& one, const Seed& other) { return one.kind < other.kind; });
  const bool replay = std::string(argv[2]) == "replay";
  const std::uint64_t number = std::strtoull(argv[replay && argc > 3 ? 3 : 2], nullptr, 10);
  const int at = replay ? 4 : 3;
  const std::uint64_t seed = argc > at ? std::strtoull(argv[at], nullptr, 10) : 1;
  void* const shared = mmap(nullptr, sizeof(Sums), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw Error(Code::kResourceExhausted, "no shared memory");
  Sums& sums = *new (shared) Sums();
  const auto start = std::chrono::steady_clock::now();
  if (replay) {
    Run(seeds, number, number + 1, 1, seed, sums);
  } else if (const int failed = RunAll(seeds, number, seed, sums)) {
    return failed;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Print(sums, seeds.size(), took.count(), seed);
  return 0;
}

}  // namespace
}  // namespace ignite_strategy

int main(int argc, char** argv) {
  try {
    return ignite_strategy::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ignite_fuzz: %s\n", error.what());
    return 2;
  }
}
