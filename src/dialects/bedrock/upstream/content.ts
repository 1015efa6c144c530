/** Writes the parts of a prompt as Bedrock's content blocks. */
import { invalidRequest } from '../../../core/errors.ts';
import { fieldsOf } from '../../../core/json.ts';
import type {
  AssistantPart,
  CacheControl,
  DocumentPart,
  ImagePart,
  ReasoningPart,
  TextPart,
  ToolResultPart,
  UserPart,
} from '../../../core/prompt.ts';
import type { Target } from '../../dialect.ts';
import { readDataUrl } from '../../normalize/requests/inline-data.ts';
import {
  nineCharacterCallId,
  plainCallId,
  shortCallId,
} from '../../normalize/requests/tool-identifiers.ts';
import { toolInput } from '../../normalize/responses/tool-arguments.ts';
import { isAnthropicRedacted, ownSignature } from '../../normalize/signature.ts';
import { toBase64 } from './reader.ts';

export type Block = Readonly<Record<string, unknown>>;

const callIdLengthMax = 64;

/** Sent instead of an empty tool result, which some models, such as Nemotron, reject. */
const noOutput: Block = { text: '(no output)' };

const documentNameLengthMax = 200;

const imageFormats: ReadonlyMap<string, string> = new Map([
  ['image/png', 'png'],
  ['image/jpeg', 'jpeg'],
  ['image/gif', 'gif'],
  ['image/webp', 'webp'],
]);

const documentFormats: ReadonlyMap<string, string> = new Map([
  ['application/pdf', 'pdf'],
  ['text/csv', 'csv'],
  ['application/msword', 'doc'],
  ['application/vnd.openxmlformats-officedocument.wordprocessingml.document', 'docx'],
  ['application/vnd.ms-excel', 'xls'],
  ['application/vnd.openxmlformats-officedocument.spreadsheetml.sheet', 'xlsx'],
  ['text/html', 'html'],
  ['text/markdown', 'md'],
]);

/** Writes the blocks of one request. */
export class ContentWriter {
  readonly #target: Target;
  readonly #dropped: Set<string>;
  readonly #keepsCachePoints: boolean;
  /** Bedrock rejects two documents with the same name. */
  readonly #documentNames = new Set<string>();

  constructor(target: Target, dropped: Set<string>) {
    this.#target = target;
    this.#dropped = dropped;
    this.#keepsCachePoints = !target.quirks.drop_params?.includes('cache_control');
  }

  text(part: TextPart): readonly Block[] {
    return isBlank(part) ? [] : this.withCachePoint({ text: part.text }, part);
  }

  /** Returns the block and, if the client set a cache breakpoint on it, a cache point after it. */
  withCachePoint(
    block: Block,
    { cacheControl }: { readonly cacheControl?: CacheControl | undefined },
  ) {
    if (cacheControl === undefined) return [block];
    if (!this.#keepsCachePoints) {
      this.#dropped.add('cache_control');
      return [block];
    }
    const ttl = cacheControl.ttl === '1h' ? '1h' : undefined;
    return [block, { cachePoint: { type: 'default', ttl } }];
  }

  assistantPart(part: AssistantPart): readonly Block[] {
    switch (part.kind) {
      case 'text':
        return this.text(part);
      case 'refusal':
        return this.text({ kind: 'text', text: part.text });
      case 'reasoning':
        return this.#reasoning(part);
      case 'tool_call': {
        const { id, name } = part;
        const toolUse = { toolUseId: this.#callId(id), name, input: toolInput(part.arguments) };
        return this.withCachePoint({ toolUse }, part);
      }
    }
  }

  userPart(part: UserPart): readonly Block[] {
    switch (part.kind) {
      case 'tool_result':
        return this.#result(part);
      case 'audio':
        this.#dropped.add('input_audio');
        return [];
      case 'text':
        return this.text(part);
      default:
        return isBlank(part) ? [] : this.#fileWithCachePoint(this.#file(part), part);
    }
  }

  /**
   * Omits the cache point after a document that isn't a PDF, because Bedrock can't pass such a
   * cache point to Claude.
   */
  #fileWithCachePoint(block: Block, part: DocumentPart | ImagePart): readonly Block[] {
    const { format = 'pdf' } = fieldsOf(block.document);
    if (format === 'pdf' || part.cacheControl === undefined)
      return this.withCachePoint(block, part);
    this.#dropped.add('cache_control');
    return [block];
  }

  /**
   * Sends only reasoning that Claude signed, and only to Claude. Claude rejects other reasoning,
   * and all other models reject signed reasoning.
   */
  #reasoning({ text, signature: prefixedSignature, redacted }: ReasoningPart): readonly Block[] {
    const { thinking } = this.#target;
    if (thinking === null || thinking === 'effort') return [];
    if (isAnthropicRedacted(redacted)) {
      return [{ reasoningContent: { redactedContent: toBase64(redacted) } }];
    }
    const signature = ownSignature('anthropic', prefixedSignature);
    if (signature === undefined) return [];
    return [{ reasoningContent: { reasoningText: { text, signature } } }];
  }

  /** A cache point can't be inside a tool result, so it follows the result. */
  #result({ callId: id, parts, isError, cacheControl }: ToolResultPart): readonly Block[] {
    const content = parts
      .filter((part) => !isBlank(part))
      .map((part) => (part.kind === 'text' ? { text: part.text } : this.#file(part)));
    const toolResult = {
      toolUseId: this.#callId(id),
      content: content.length > 0 ? content : [noOutput],
      status: isError ? 'error' : undefined,
    };
    const inner = parts.findLast((part) => part.cacheControl !== undefined)?.cacheControl;
    return this.withCachePoint({ toolResult }, { cacheControl: cacheControl ?? inner });
  }

  #file(part: ImagePart | DocumentPart): Block {
    return part.kind === 'image' ? this.#image(part) : this.#document(part);
  }

  #image({ url }: ImagePart): Block {
    const inline = readDataUrl(url);
    const format = imageFormats.get(inline?.mediaType ?? '');
    if (inline === undefined || format === undefined) {
      throw invalidRequest('This model accepts only PNG, JPEG, GIF, and WebP images.');
    }
    return { image: { format, source: { bytes: inline.base64 } } };
  }

  #document({ source, name }: DocumentPart): Block {
    if ('text' in source) return this.#bytes('txt', Buffer.from(source.text), name);
    const inline = 'url' in source ? readDataUrl(source.url) : undefined;
    if (inline === undefined) {
      throw invalidRequest('This model accepts documents only as data: URLs.');
    }
    const { mediaType, base64 } = inline;
    const format =
      documentFormats.get(mediaType) ?? (/^text\//.test(mediaType) ? 'txt' : undefined);
    if (format === undefined) {
      throw invalidRequest(`This model doesn't accept documents of type ${mediaType}.`);
    }
    return this.#bytes(format, Buffer.from(base64, 'base64'), name);
  }

  #bytes(format: string, bytes: Buffer, name: string | undefined): Block {
    const source = { bytes: bytes.toString('base64') };
    return { document: { format, name: this.#documentName(name), source } };
  }

  #callId(id: string): string {
    const isNine = this.#target.quirks.tool_call_ids === 'nine_characters';
    return isNine ? nineCharacterCallId(id) : shortCallId(plainCallId(id), callIdLengthMax);
  }

  /**
   * Returns a unique document name that contains only the characters that Bedrock accepts: letters,
   * digits, hyphens, parentheses, square brackets, and single spaces.
   */
  #documentName(original = ''): string {
    const plain = original.replaceAll(/[^A-Za-z0-9()[\]-]+/g, ' ').trim();
    const base = plain.slice(0, documentNameLengthMax - 10).trim() || 'document';
    let name = base;
    for (let count = 2; this.#documentNames.has(name); count += 1) name = `${base} ${count}`;
    this.#documentNames.add(name);
    return name;
  }
}

/** Returns true for blank text and blank documents, which Bedrock rejects. */
function isBlank(part: TextPart | ImagePart | DocumentPart): boolean {
  if (part.kind === 'text') return part.text.trim() === '';
  return part.kind === 'document' && 'text' in part.source && part.source.text.trim() === '';
}
