// A file of IGFS's endpoint that is open for writing.
//
// Before its first publishing it grows under a name of its own, so that it appears whole or not at all. After
// that it is extended in place, in small blocks: the server shows what was added when its stream is closed,
// in one step, and what is added is kept here until then as far as it fits.
#ifndef IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_WRITER_H_
#define IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_WRITER_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "native/igfs/endpoint_backend.h"
#include "native/wire/socket.h"

namespace ignite_strategy {
namespace igfs {

class EndpointWriter : public WritableFile {
 public:
  static std::unique_ptr<EndpointWriter> Open(std::shared_ptr<EndpointBackend> backend, const Path& path,
                                              Mode mode, const Wait& wait);
  ~EndpointWriter() override;

  void Append(const char* data, std::size_t size, const Wait& wait) override;
  void Flush(const Wait& wait) override;
  void Close(const Wait& wait) override;
  void Abandon() noexcept override;
  std::uint64_t Tell() const override;

 private:
  EndpointWriter(std::shared_ptr<EndpointBackend> backend, Path path);

  template <typename Body>
  void Guard(Body body);
  void Fill(const char* data, std::size_t size, const Wait& wait);
  void SendBuffer(const Wait& wait);
  void OpenStream(const Wait& wait);
  void Create(const Wait& wait);
  void Extend(const Wait& wait);
  bool TryExtend(const Wait& wait);
  void CloseStream(const Wait& wait);
  void Publish(const Wait& wait);
  void PublishNew(const Wait& wait);
  Error Changed(const std::string& how) const;
  void Drop() noexcept;

  const std::shared_ptr<EndpointBackend> backend_;
  const Path path_;
  const std::string what_;
  const unsigned long generation_ = ForkGeneration();  // of the process that has opened it
  mutable std::mutex mutex_;

  std::optional<std::string> id_;  // of the file at path_, once it is there; null: it has none
  bool in_place_ = false;          // the file is at path_ and is extended
  bool replaces_ = false;          // whatever is at path_ when the file is published
  bool must_publish_ = false;      // even if nothing is written
  std::uint64_t published_ = 0;    // the length that others see
  std::uint64_t length_ = 0;       // of everything written

  std::vector<char> buffer_;
  endpoint::Lease lease_;  // with an open stream, or empty
  std::int64_t stream_ = 0;
  Path unpublished_;  // where the stream writes to, before the first publishing

  bool closed_ = false;
  std::optional<Error> failure_;
};

}  // namespace igfs
}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_IGFS_ENDPOINT_WRITER_H_
