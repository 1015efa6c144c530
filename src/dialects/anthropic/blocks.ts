/**
 * The content blocks of Anthropic's messages that we know. Blocks of other types go to Anthropic
 * unchanged: it often adds new types, and clients send back the blocks that they got from it.
 */
import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../core/errors.ts';
import { optional } from '../../core/schema-builders.ts';
import { webAddress } from '../ask/content/address-schema.ts';
import { checkBase64 } from '../ask/content/inline-content.ts';
import { type OneOf, SchemasByType } from '../ask/schemas-by-type.ts';

const cacheFields = { cache_control: optional(Type.Object({})) };
/** A block inside another block, or one that was not checked yet. */
export const anyBlock = Type.Object({ type: Type.String({ minLength: 1 }) });
export type AnyBlock = Static<typeof anyBlock>;

const base64 = Type.Object({
  type: Type.Literal('base64'),
  media_type: Type.String({ pattern: '^[\\w.+-]+/[\\w.+-]+$', expected: 'a media type' }),
  data: Type.String({ minLength: 1 }),
});
const address = Type.Object({ type: Type.Literal('url'), url: webAddress });
const file = Type.Object({ type: Type.Literal('file'), file_id: Type.String({ minLength: 1 }) });

export const textBlock = Type.Object({
  type: Type.Literal('text'),
  text: Type.String(),
  ...cacheFields,
});

const schemas = {
  text: textBlock,
  image: Type.Object({
    type: Type.Literal('image'),
    source: Type.Union([base64, address, file]),
    ...cacheFields,
  }),
  document: Type.Object({
    type: Type.Literal('document'),
    source: Type.Union([
      base64,
      address,
      file,
      Type.Object({ type: Type.Literal('text'), data: Type.String() }),
      Type.Object({
        type: Type.Literal('content'),
        content: Type.Union([Type.String(), Type.Array(anyBlock)]),
      }),
    ]),
    title: optional(Type.String()),
    context: optional(Type.String()),
    citations: optional(Type.Object({ enabled: optional(Type.Boolean()) })),
    ...cacheFields,
  }),
  tool_use: Type.Object({
    type: Type.Literal('tool_use'),
    id: Type.String({ minLength: 1 }),
    name: Type.String({ minLength: 1 }),
    input: Type.Object({}),
    ...cacheFields,
  }),
  tool_result: Type.Object({
    type: Type.Literal('tool_result'),
    tool_use_id: Type.String({ minLength: 1 }),
    content: optional(Type.Union([Type.String(), Type.Array(anyBlock)])),
    is_error: optional(Type.Boolean()),
    ...cacheFields,
  }),
  thinking: Type.Object({
    type: Type.Literal('thinking'),
    thinking: Type.String(),
    signature: optional(Type.String()),
  }),
  redacted_thinking: Type.Object({
    type: Type.Literal('redacted_thinking'),
    data: Type.String(),
  }),
};

type KnownBlock = OneOf<typeof schemas>;
export type BlockOf<T extends KnownBlock['type']> = Extract<KnownBlock, { type: T }>;

const known = new SchemasByType(schemas);

type Role = 'user' | 'assistant' | 'system';

/** The only roles that may have a block of each type; models that draw answer with images. */
const onlyRoles: ReadonlyMap<string, readonly Role[]> = new Map([
  ['image', ['user', 'assistant']],
  ['document', ['user']],
  ['tool_result', ['user']],
  ['tool_use', ['assistant']],
  ['thinking', ['assistant']],
  ['redacted_thinking', ['assistant']],
]);

/** Refuses the first block that does not fit the schema of its type, or the role of its message. */
export function checkBlocks(blocks: readonly AnyBlock[], role: Role, path: string): void {
  for (const [at, block] of blocks.entries()) {
    const place = `${path}[${at}]`;
    known.check(block.type, block, place);
    checkSource(block, `${place}.source.data`);
    const only = onlyRoles.get(block.type);
    if (only !== undefined && !only.includes(role)) {
      const article = only.includes('user') ? 'a user' : 'an assistant';
      const message = `${place}.type "${block.type}" belongs in ${article} message.`;
      throw invalidRequest(message, `${place}.type`);
    }
    const inner = innerBlocks(block);
    if (inner) checkBlocks(inner.blocks, 'user', `${place}.${inner.field}`);
  }
}

function checkSource(block: AnyBlock, path: string): void {
  if (!isKnown(block) || (block.type !== 'image' && block.type !== 'document')) return;
  if (block.source.type === 'base64') checkBase64(block.source.data, path);
}

/** Content may be a plain text, which means one text block. */
export function blocksIn(content: string | readonly AnyBlock[]): readonly AnyBlock[] {
  if (typeof content !== 'string') return content;
  const only = { type: 'text', text: content };
  return [only];
}

/** The blocks inside another block, and the field that holds them. */
export function innerBlocks(
  block: AnyBlock,
): { readonly blocks: AnyBlock[]; readonly field: string } | undefined {
  if (!isKnown(block)) return undefined;
  if (block.type === 'tool_result' && Array.isArray(block.content)) {
    return { blocks: block.content, field: 'content' };
  }
  if (block.type !== 'document' || block.source.type !== 'content') return undefined;
  const { content } = block.source;
  return Array.isArray(content) ? { blocks: content, field: 'source.content' } : undefined;
}

/** True for blocks that were checked by `checkBlocks` and are of a type we know. */
export function isKnown(block: AnyBlock): block is KnownBlock {
  return known.has(block.type);
}

/** A picture that a model made: it came with an answer, and no model is shown it again. */
export function isMade(block: AnyBlock, role: Role): block is BlockOf<'image'> {
  return role === 'assistant' && isKnown(block) && block.type === 'image';
}

/** The address of a picture, or its `data:` URL; undefined for a file that the provider keeps. */
export function imageUrl({ source }: BlockOf<'image'>): string | undefined {
  if (source.type === 'url') return source.url;
  return source.type === 'base64' ? `data:${source.media_type};base64,${source.data}` : undefined;
}
