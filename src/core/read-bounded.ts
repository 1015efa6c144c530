/** Reads a response as text. Returns undefined, without reading the rest, if it is too long. */
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
