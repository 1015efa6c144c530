/** The parts of a request that count as input: its texts, one by one, its pictures and files. */
import { readDataUrlImageSize } from '../../core/media/image-size.ts';
import { type AnyBlock, type BlockOf, blocksIn, imageUrl, isKnown, isMade } from './blocks.ts';
import type { CountBody } from './messages-schema.ts';

/** Tokens that Anthropic adds around each message and each tool. */
const tokensPerMessage = 4;
const tokensPerTool = 8;

/** An image costs a token per 750 pixels; Anthropic shrinks it to stay below this many tokens. */
const pixelsPerToken = 750;
export const tokensPerImageMax = 1_600;

/** A page of a PDF is some 50 KB and 2,000 tokens. */
const base64PerToken = 32;

type Countable = string | { readonly tokens: number };

export function* countable({ system, messages, tools }: CountBody): Generator<Countable> {
  yield* inContent(system);
  for (const tool of tools ?? []) {
    yield { tokens: tokensPerTool };
    yield JSON.stringify(tool);
  }
  for (const { role, content } of messages) {
    yield { tokens: tokensPerMessage };
    const blocks = blocksIn(content ?? []);
    yield* inContent(blocks.filter((block) => !isMade(block, role)));
  }
}

function* inContent(
  content: string | readonly AnyBlock[] | null | undefined,
): Generator<Countable> {
  for (const block of blocksIn(content ?? [])) yield* inBlock(block);
}

function* inBlock(block: AnyBlock): Generator<Countable> {
  if (!isKnown(block)) yield JSON.stringify(block);
  else if (block.type === 'text') yield block.text;
  else if (block.type === 'image') yield { tokens: imageTokens(imageUrl(block) ?? '') };
  else if (block.type === 'document') yield* inDocument(block.source);
  else if (block.type === 'tool_use') yield `${block.name} ${JSON.stringify(block.input)}`;
  else if (block.type === 'tool_result') yield* inContent(block.content);
  // Thoughts of earlier turns cost nothing: the model does not read them again.
}

function imageTokens(url: string): number {
  const size = readDataUrlImageSize(url);
  if (!size) return tokensPerImageMax;
  const tokens = Math.ceil((size.width * size.height) / pixelsPerToken);
  return Math.min(tokens, tokensPerImageMax);
}

function* inDocument(source: BlockOf<'document'>['source']): Generator<Countable> {
  if (source.type === 'text') yield source.data;
  if (source.type === 'base64') yield { tokens: Math.ceil(source.data.length / base64PerToken) };
  if (source.type === 'content') yield* inContent(source.content);
}
