/** What a picture or a document is by how it begins: the kinds that models look at. */

const beginnings: readonly (readonly [string, RegExp])[] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8/],
  ['image/webp', /^RIFF.{4}WEBP/s],
  ['application/pdf', /^%PDF-/],
];

/** The longest of these beginnings. */
const beginningBytes = 12;

export function fileTypeOf(bytes: Uint8Array): string | undefined {
  const length = Math.min(bytes.byteLength, beginningBytes);
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, length).toString('latin1');
  return beginnings.find(([, beginning]) => beginning.test(head))?.[0];
}
