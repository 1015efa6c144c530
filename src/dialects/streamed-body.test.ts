import { describe, expect, test } from 'bun:test';
import type { StreamedContent } from '../core/form.ts';
import { bodyFromBytes, concatBodies, inBase64, writeForm } from './streamed-body.ts';

const bytes = Buffer.from(Array.from({ length: 1_000 }, (_, index) => (index * 7) % 256));

function inPieces(content: Uint8Array, size: number): StreamedContent {
  return {
    bytes: content.length,
    async *chunks() {
      for (let index = 0; index < content.length; index += size)
        yield content.subarray(index, index + size);
    },
  };
}

async function read(body: StreamedContent): Promise<Buffer> {
  const all = Buffer.concat(await Array.fromAsync(body.chunks()));
  expect(all.length).toBe(body.bytes);
  return all;
}

describe('streamed bodies', () => {
  test.each([1, 2, 3, 4, 7, 999])(
    'encode base64 correctly from chunks of %i bytes',
    async (size) => {
      for (const length of [0, 1, 2, 3, 1_000]) {
        const content = bytes.subarray(0, length);
        const encoded = (await read(inBase64(inPieces(content, size)))).toString();
        expect(encoded).toBe(content.toString('base64'));
      }
    },
  );

  test('report the total length in bytes of several pieces', async () => {
    const body = concatBodies(['é', bodyFromBytes(bytes.subarray(0, 2)), '']);
    expect((await read(body)).equals(Buffer.concat([Buffer.from('é'), bytes.subarray(0, 2)]))).toBe(
      true,
    );
  });

  test('write a form that can be parsed, with escaped names', async () => {
    const odd = 'a"\r\ncontent-type: b';
    const { headers, body } = writeForm({ prompt: 'über\r\n--x', n: 1, [odd]: 'c' }, [
      {
        name: 'image',
        filename: 'image.png',
        contentType: 'image/png',
        content: inPieces(bytes, 99),
      },
    ]);
    const form = await new Response(await read(body), { headers }).formData();
    expect([...form.keys()]).toHaveLength(4);
    expect([form.get('prompt'), form.get('n')]).toEqual(['über\r\n--x', '1']);
    const file = form.get('image');
    if (!(file instanceof Blob)) throw new Error('The file is missing.');
    expect(file.type).toBe('image/png');
    expect(Buffer.from(await file.arrayBuffer()).equals(bytes)).toBe(true);
  });
});
