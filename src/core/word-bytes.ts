import type { Dialogue, Turn } from './dialogue.ts';

/**
 * The words of a prompt, in bytes: what is said in it and what its tools are called, not the JSON
 * around them. Only for prompts that nobody counted, or not yet; no request has an empty one.
 */
export function wordBytes({ turns, tools, json }: Dialogue): number {
  let bytes = json?.schema ? Buffer.byteLength(JSON.stringify(json.schema)) : 0;
  for (const { name, description = '', parameters } of tools) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(description);
    if (parameters) bytes += Buffer.byteLength(JSON.stringify(parameters));
  }
  for (const { parts } of turns) for (const part of parts) bytes += bytesIn(part);
  return Math.max(1, bytes);
}

type Part = Turn['parts'][number];

/** A page of a PDF is some 50 KB in base64 and 2,000 tokens: eight letters count as one byte. */
const fileLettersPerByte = 8;
/** A second of sound is some 20 KB of MP3 in base64, 64 KB of samples, and at least 10 tokens. */
const soundLettersPerByte = 500;
/** The bytes of a picture say nothing about its tokens; the least that anybody counts is 85. */
const pictureBytes = 340;

function bytesIn(part: Part): number {
  switch (part.kind) {
    case 'text':
    case 'refusal':
    case 'reasoning':
      return Buffer.byteLength(part.text);
    case 'tool_call':
      return Buffer.byteLength(part.name) + Buffer.byteLength(part.arguments);
    case 'tool_result':
      return part.parts.reduce((sum, inner) => sum + bytesIn(inner), 0);
    case 'document':
      if ('text' in part.source) return Buffer.byteLength(part.source.text);
      if (!('url' in part.source && /^data:/i.test(part.source.url))) return 0;
      return Math.ceil(part.source.url.length / fileLettersPerByte);
    case 'image':
      return pictureBytes;
    case 'audio':
      return Math.ceil(part.data.length / soundLettersPerByte);
  }
}
