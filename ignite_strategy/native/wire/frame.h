// Memory for one message from the wire.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_FRAME_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ignite_strategy {

// Unlike a vector it is not cleared, and it can begin anywhere within a cache line: whoever knows where a
// large array is in such messages gets it where tensors want it, and need not copy it.
class Frame {
 public:
  static constexpr std::size_t kAlignment = 64;

  Frame() = default;
  Frame(Frame&& other) noexcept { *this = std::move(other); }
  Frame& operator=(Frame&& other) noexcept;

  std::uint8_t* data() { return memory_.get() + shift_; }
  const std::uint8_t* data() const { return memory_.get() + shift_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::uint8_t back() const { return data()[size_ - 1]; }
  // What it can grow to without other memory.
  std::size_t capacity() const { return capacity_; }
  // Shrinks, or grows by bytes that have any value; the first `kept` ones stay.
  void Resize(std::size_t size, std::size_t kept);
  // From now on it begins so many bytes behind a multiple of kAlignment; what was in it is gone.
  void Shift(std::size_t shift) {
    shift_ = shift % kAlignment;
    size_ = 0;
  }

 private:
  struct Deleter {
    void operator()(std::uint8_t* memory) const;
  };
  std::unique_ptr<std::uint8_t, Deleter> memory_;  // kAlignment bytes more than the capacity
  std::size_t shift_ = 0;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_FRAME_H_
