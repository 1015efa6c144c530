/** Ogg, the container of Opus: a file is a row of pages, each with its own place in time. */

export interface OggPage {
  /** A packet of the page before goes on here. */
  readonly isContinued: boolean;
  /** Samples up to the end of the last packet that ends here; -1 when none does. */
  readonly granule: bigint;
  readonly lacing: Uint8Array;
  readonly body: Uint8Array;
}

const headBytes = 27;

/** With one packet on each page, this is half an hour of speech; a piece is some minutes long. */
const pagesMax = 100_000;

/** The pages of a file, or undefined when it is none or is broken. */
export function readOggPages(file: Uint8Array): OggPage[] | undefined {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const pages: OggPage[] = [];
  for (let at = 0; at < file.length; ) {
    if (pages.length === pagesMax) return undefined;
    if (at + headBytes > file.length || view.getUint32(at) !== 0x4f67_6753) return undefined;
    const bodyAt = at + headBytes + view.getUint8(at + 26);
    if (bodyAt > file.length) return undefined;
    const lacing = file.subarray(at + headBytes, bodyAt);
    const end = bodyAt + lacing.reduce((sum, length) => sum + length, 0);
    if (end > file.length) return undefined;
    pages.push({
      isContinued: (view.getUint8(at + 5) & 1) !== 0,
      granule: view.getBigInt64(at + 6, true),
      lacing,
      body: file.subarray(bodyAt, end),
    });
    at = end;
  }
  return pages.length > 0 ? pages : undefined;
}

interface PagePlace {
  readonly serial: number;
  readonly sequence: number;
  readonly isFirst: boolean;
  readonly isLast: boolean;
}

export function writeOggPage(page: OggPage, place: PagePlace): Uint8Array {
  const bytes = new Uint8Array(headBytes + page.lacing.length + page.body.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, 0x4f67_6753);
  const flags = [page.isContinued, place.isFirst, place.isLast];
  view.setUint8(
    5,
    flags.reduce((sum, flag, bit) => sum | (Number(flag) << bit), 0),
  );
  view.setBigInt64(6, page.granule, true);
  view.setUint32(14, place.serial, true);
  view.setUint32(18, place.sequence, true);
  view.setUint8(26, page.lacing.length);
  bytes.set(page.lacing, headBytes);
  bytes.set(page.body, headBytes + page.lacing.length);
  view.setUint32(22, checksum(bytes), true);
  return bytes;
}

const crcTable = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte << 24;
  for (let bit = 0; bit < 8; bit += 1) {
    value = (value & 0x8000_0000) === 0 ? value << 1 : (value << 1) ^ 0x04c1_1db7;
  }
  return value >>> 0;
});

/** CRC-32 as Ogg computes it: most significant bit first, from zero, nothing inverted. */
function checksum(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc = ((crc << 8) ^ (crcTable[((crc >>> 24) ^ byte) & 0xff] ?? 0)) >>> 0;
  }
  return crc;
}
