// Ctrl-C while a native call waits.
//
// Python only notes a SIGINT; it acts on it when the interpreter runs again, which a kernel that waits for a
// silent server would delay until its deadline. While a wait is on, an InterruptWatch chains a handler before
// the installed one and counts signals, so that waits end with Error(kCancelled, "interrupted") and Python
// raises KeyboardInterrupt.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_INTERRUPT_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_INTERRUPT_H_

#include <functional>

namespace ignite_strategy {

// Reference-counted for the process; the previous handler is put back when the last watch ends.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  // A SIGINT arrived since this watch began.
  bool interrupted() const;
  // For Wait::check: throws Error(kCancelled, "interrupted") once a SIGINT arrived. Must not outlive the
  // watch.
  std::function<void()> Check() const;

 private:
  unsigned long seen_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_INTERRUPT_H_
