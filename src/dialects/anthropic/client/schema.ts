import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../../core/errors.ts';
import { efforts } from '../../../core/prompt.ts';
import { oneOf, optional } from '../../../core/schema.ts';
import { checkedNames } from '../../normalize/requests/checked-names.ts';
import { webUrl } from '../../normalize/requests/external-references.ts';
import { outputLimitSchema } from '../../normalize/requests/generation-options.ts';
import { checkBase64, checkImage } from '../../normalize/requests/inline-data.ts';
import { label, routingFields } from '../../normalize/requests/routing.ts';
import { type OneOf, SchemasByType } from '../../normalize/requests/schemas-by-type.ts';
import { addedFields } from '../../normalize/requests/search-options.ts';
import { toolNameDescription, toolNamePattern } from '../../normalize/requests/tool-identifiers.ts';

// The known content blocks of Anthropic's messages. Blocks of other types go to Anthropic
// unchanged, because Anthropic often adds types, and clients send back the blocks that they
// received.

const cacheFields = { cache_control: optional(Type.Object({})) };
/** A nested block, or a block that hasn't been validated yet. */
const anyBlock = Type.Object({ type: Type.String({ minLength: 1 }) });
export type AnyBlock = Static<typeof anyBlock>;

const base64 = Type.Object({
  type: Type.Literal('base64'),
  media_type: Type.String({ pattern: '^[\\w.+-]+/[\\w.+-]+$', expected: 'a media type' }),
  data: Type.String({ minLength: 1 }),
});
const urlSource = Type.Object({ type: Type.Literal('url'), url: webUrl });
const file = Type.Object({ type: Type.Literal('file'), file_id: Type.String({ minLength: 1 }) });

const textBlock = Type.Object({
  type: Type.Literal('text'),
  text: Type.String(),
  ...cacheFields,
});

const schemas = {
  text: textBlock,
  image: Type.Object({
    type: Type.Literal('image'),
    source: Type.Union([base64, urlSource, file]),
    ...cacheFields,
  }),
  document: Type.Object({
    type: Type.Literal('document'),
    source: Type.Union([
      base64,
      urlSource,
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

/**
 * For each block type, the roles whose messages may contain such a block. Images in assistant
 * messages are generated images.
 */
const onlyRoles: ReadonlyMap<string, readonly Role[]> = new Map([
  ['image', ['user', 'assistant']],
  ['document', ['user']],
  ['tool_result', ['user']],
  ['tool_use', ['assistant']],
  ['thinking', ['assistant']],
  ['redacted_thinking', ['assistant']],
]);

/**
 * Throws 400 for the first block that doesn't match its schema or isn't allowed in a message of its
 * role.
 */
export function checkBlocks(blocks: readonly AnyBlock[], role: Role, path: string): void {
  for (const [index, block] of blocks.entries()) {
    const blockPath = `${path}[${index}]`;
    known.check(block.type, block, blockPath);
    checkSource(block, `${blockPath}.source.data`);
    const only = onlyRoles.get(block.type);
    if (only !== undefined && !only.includes(role)) {
      const article = only.includes('user') ? 'a user' : 'an assistant';
      const message = `${blockPath}.type "${block.type}" belongs in ${article} message.`;
      throw invalidRequest(message, `${blockPath}.type`);
    }
    const inner = innerBlocks(block);
    if (inner) checkBlocks(inner.blocks, 'user', `${blockPath}.${inner.field}`);
  }
}

function checkSource(block: AnyBlock, path: string): void {
  if (!isKnown(block) || (block.type !== 'image' && block.type !== 'document')) return;
  if (block.source.type !== 'base64') return;
  const { data, media_type: mediaType } = block.source;
  checkBase64(data, path);
  if (block.type === 'image') checkImage(mediaType, data, path);
}

/** Returns content as blocks. A string becomes one text block. */
export function blocksIn(content: string | readonly AnyBlock[]): readonly AnyBlock[] {
  if (typeof content !== 'string') return content;
  const only = { type: 'text', text: content };
  return [only];
}

/** Returns the blocks inside another block, and the field that contains them. */
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

/** Returns true for a block of a known type. Requires `checkBlocks` to have passed. */
export function isKnown(block: AnyBlock): block is KnownBlock {
  return known.has(block.type);
}

/** Returns true for an image that a model generated. It isn't sent to a model again. */
export function isGeneratedImage(block: AnyBlock, role: Role): block is BlockOf<'image'> {
  return role === 'assistant' && isKnown(block) && block.type === 'image';
}

/**
 * Returns an image's URL, or a `data:` URL with its bytes; undefined for a file stored at the
 * provider.
 */
export function imageUrl({ source }: BlockOf<'image'>): string | undefined {
  if (source.type === 'url') return source.url;
  return source.type === 'base64' ? `data:${source.media_type};base64,${source.data}` : undefined;
}

// The schema of `/v1/messages`. Known fields are validated, and unknown ones are forwarded to
// Anthropic-style upstreams. Each block is validated by the schema of its type.

const content = Type.Union([Type.String(), Type.Array(anyBlock)]);
/**
 * A message with content. A message without content only changes settings such as `output_config`.
 */
export const contentMessageSchema = Type.Object({ content });
const messageSchema = Type.Object({
  role: oneOf('user', 'assistant', 'system'),
  content: optional(content),
});

/** Tools of types other than `custom` are the provider's own, with their own fields. */
const toolSchema = Type.Object({
  type: optional(Type.String()),
  name: optional(Type.String()),
});

export const customToolSchema = Type.Object({
  type: optional(Type.Literal('custom')),
  name: Type.String({ pattern: toolNamePattern, expected: toolNameDescription }),
  description: optional(Type.String()),
  input_schema: optional(Type.Object({})),
  strict: optional(Type.Boolean()),
  cache_control: optional(Type.Object({})),
});
export type CustomTool = Static<typeof customToolSchema>;

export const toolListSchema = Type.Array(toolSchema, { maxItems: 1024 });

const parallel = { disable_parallel_tool_use: optional(Type.Boolean()) };
const toolChoiceSchema = Type.Union([
  Type.Object({ type: Type.Literal('auto'), ...parallel }),
  Type.Object({ type: Type.Literal('any'), ...parallel }),
  Type.Object({
    type: Type.Literal('tool'),
    name: Type.String({ minLength: 1 }),
    ...parallel,
  }),
  Type.Object({ type: Type.Literal('none') }),
]);

const display = { display: optional(oneOf('summarized', 'omitted', 'updates')) };
const thinkingSchema = Type.Union([
  Type.Object({ type: Type.Literal('adaptive'), ...display }),
  Type.Object({
    type: Type.Literal('enabled'),
    budget_tokens: Type.Integer({ minimum: 1 }),
    ...display,
  }),
  Type.Object({ type: Type.Literal('between_tools') }),
  Type.Object({ type: Type.Literal('disabled') }),
]);

const formatSchema = Type.Object({
  type: Type.Literal('json_schema'),
  schema: Type.Object({}),
});

const fields = {
  ...routingFields,
  messages: Type.Array(messageSchema, { minItems: 1, maxItems: 10_000 }),
  system: optional(Type.Union([Type.String(), Type.Array(textBlock)])),
  stream: optional(Type.Boolean()),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_p: optional(Type.Number({ minimum: 0, maximum: 1 })),
  top_k: optional(Type.Integer({ minimum: 0 })),
  stop_sequences: optional(Type.Array(Type.String(), { maxItems: 8_191 })),
  metadata: optional(Type.Object({ user_id: label })),
  tools: optional(toolListSchema),
  tool_choice: optional(toolChoiceSchema),
  thinking: optional(thinkingSchema),
  output_config: optional(
    Type.Object({ effort: optional(oneOf(...efforts)), format: optional(formatSchema) }),
  ),
  output_format: optional(formatSchema),
  ...addedFields,
};

/** With 0, Anthropic reads the prompt into its cache and generates no answer. */
const limit = Type.Integer({ ...outputLimitSchema, minimum: 0 });

export const messagesSchema = Type.Object({ ...fields, max_tokens: limit });
export type MessagesBody = Static<typeof messagesSchema>;
export type Messages = MessagesBody['messages'];

/** A request to count tokens needs no output limit. */
export const countSchema = Type.Object({ ...fields, max_tokens: optional(limit) });
export type CountBody = Static<typeof countSchema>;

export const messagesNames = checkedNames(countSchema, schemas, customToolSchema);
