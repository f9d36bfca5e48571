#include "native/wire/interrupt.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "native/wire/error.h"

namespace ignite_strategy {
namespace {

// What was installed before us, oldest first: another library may have put its handler before ours in the
// meantime, and that one calls ours. Fixed size, because a signal handler reads it.
constexpr int kMaxPrevious = 8;
struct sigaction previous[kMaxPrevious];
std::atomic<int> previous_count{0};
std::atomic<int> depth{0};  // of our handler: ours -> another's -> ours
std::atomic<unsigned long> interrupts{0};
std::mutex mutex;
int watches = 0;

void OnInterrupt(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const int level = depth.fetch_add(1);
  if (level == 0) interrupts.fetch_add(1);
  const int at = previous_count.load() - 1 - level;
  if (at >= 0) {
    const struct sigaction& next = previous[at];
    if (next.sa_flags & SA_SIGINFO) {
      next.sa_sigaction(signal, info, context);
    } else if (next.sa_handler != SIG_IGN && next.sa_handler != SIG_DFL) {
      next.sa_handler(signal);
    }
  }
  depth.fetch_sub(1);
  errno = saved_errno;
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnInterrupt;
}

bool IsDefaultOrIgnored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 &&
         (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN);
}

bool Same(const struct sigaction& a, const struct sigaction& b) {
  if ((a.sa_flags & SA_SIGINFO) != (b.sa_flags & SA_SIGINFO)) return false;
  return (a.sa_flags & SA_SIGINFO) != 0 ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler;
}

void Install() {
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0 || IsOurs(current)) return;
  // By default SIGINT ends the process, which needs no help of ours; ignored means ignored.
  if (IsDefaultOrIgnored(current)) return;
  // A handler that we know has been put back over ours, by signal.signal() for instance: it does not call
  // ours.
  int at = 0;
  while (at < previous_count.load() && !Same(previous[at], current)) ++at;
  if (at == kMaxPrevious) return;
  previous[at] = current;
  previous_count.store(at + 1);
  struct sigaction ours = current;
  ours.sa_flags |= SA_SIGINFO;
  ours.sa_sigaction = OnInterrupt;
  sigaction(SIGINT, &ours, nullptr);
}

void Uninstall() {
  struct sigaction current;
  if (sigaction(SIGINT, nullptr, &current) != 0 || !IsOurs(current))
    return;  // somebody else's is before ours
  const int count = previous_count.load();
  if (count == 0) return;
  sigaction(SIGINT, &previous[count - 1], nullptr);
  previous_count.store(count - 1);
}

}  // namespace

InterruptWatch::InterruptWatch() : seen_(interrupts.load()) {
  // A child must not inherit a held lock.
  static const int registered =
      pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
  static_cast<void>(registered);
  const std::lock_guard<std::mutex> lock(mutex);
  ++watches;
  Install();
}

InterruptWatch::~InterruptWatch() {
  const std::lock_guard<std::mutex> lock(mutex);
  if (--watches == 0) Uninstall();
}

bool InterruptWatch::interrupted() const {
  {
    // The program may have installed a handler of its own since.
    const std::lock_guard<std::mutex> lock(mutex);
    Install();
  }
  return interrupts.load() != seen_;
}

std::function<void()> InterruptWatch::Check() const {
  return [this] {
    if (interrupted()) throw Error(Code::kCancelled, "interrupted");
  };
}

}  // namespace ignite_strategy
