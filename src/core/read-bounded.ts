/** The text of an answer; undefined when it has more bytes, of which the rest is not read. */
export async function readBounded(
  { body }: Response,
  bytesMax: number,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of body ?? []) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size).toString('utf8');
}
