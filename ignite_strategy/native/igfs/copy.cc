#include "native/igfs/copy.h"

#include <vector>

namespace ignite_strategy {
namespace igfs {

void CopyFile(Backend& source_backend, const Path& source, Backend& target_backend, const Path& target,
              const Wait& wait) {
  constexpr std::size_t kPiece = 1 << 20;
  const auto reader = source_backend.OpenRead(source, wait);
  if (source_backend.target().SameTree(target_backend.target()) && source == target) return;
  const auto writer = target_backend.OpenWrite(target, Mode::kReplace, wait);
  std::vector<char> piece(kPiece);
  for (std::uint64_t at = 0;;) {
    const std::size_t got = reader->Read(at, piece.size(), piece.data(), wait);
    writer->Append(piece.data(), got, wait);
    at += got;
    if (got < piece.size()) break;
  }
  writer->Close(wait);
}

}  // namespace igfs
}  // namespace ignite_strategy
