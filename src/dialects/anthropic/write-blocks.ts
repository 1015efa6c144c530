/** The parts of a dialogue as Anthropic's content blocks. */
import type {
  AssistantPart,
  DocumentPart,
  ImagePart,
  TextPart,
  ToolResultPart,
  UserPart,
} from '../../core/dialogue.ts';
import { cacheField } from '../ask/cache-marks.ts';
import { readDataUrl } from '../ask/content/data-url.ts';
import { plainCallId } from '../ask/tools/call-ids.ts';
import { isAnthropics, ownSignature } from '../signature.ts';
import { toolInput } from './tool-input.ts';

export type Block = { readonly type: string } & Readonly<Record<string, unknown>>;

/** Anthropic refuses blank texts. */
export function writeText(part: TextPart): readonly Block[] {
  if (part.text.trim() === '') return [];
  return [{ type: 'text', text: part.text, ...cacheField(part) }];
}

export function writeAssistantPart(part: AssistantPart): readonly Block[] {
  switch (part.kind) {
    case 'text':
      return writeText(part);
    case 'refusal':
      return writeText({ kind: 'text', text: part.text });
    case 'reasoning': {
      // Anthropic refuses a request with a thought that it did not sign.
      if (isAnthropics(part.redacted)) return [{ type: 'redacted_thinking', data: part.redacted }];
      const signature = ownSignature('anthropic', part.signature);
      return signature === undefined ? [] : [{ type: 'thinking', thinking: part.text, signature }];
    }
    case 'tool_call': {
      const input = toolInput(part.arguments);
      return [
        { type: 'tool_use', id: plainCallId(part.id), name: part.name, input, ...cacheField(part) },
      ];
    }
  }
}

export function writeUserPart(part: UserPart, dropped: Set<string>): readonly Block[] {
  switch (part.kind) {
    case 'tool_result':
      return [writeResult(part)];
    case 'audio':
      dropped.add('input_audio');
      return [];
    default:
      return writeShown(part);
  }
}

function writeShown(part: TextPart | ImagePart | DocumentPart): readonly Block[] {
  switch (part.kind) {
    case 'text':
      return writeText(part);
    case 'image':
      return [{ type: 'image', source: imageSource(part.url), ...cacheField(part) }];
    case 'document': {
      const source = documentSource(part);
      return [{ type: 'document', source, title: part.name, ...cacheField(part) }];
    }
  }
}

function writeResult(part: ToolResultPart): Block {
  const blocks = part.parts.flatMap(writeShown);
  return {
    type: 'tool_result',
    tool_use_id: plainCallId(part.callId),
    content: blocks.length > 0 ? blocks : undefined,
    is_error: part.isError ? true : undefined,
    ...cacheField(part),
  };
}

/** The bytes of a `data:` URL in Anthropic's words; undefined for any other address. */
function base64Source(url: string) {
  const inline = readDataUrl(url);
  if (!inline) return undefined;
  return { type: 'base64', media_type: inline.mediaType, data: inline.base64 };
}

export function imageSource(url: string): object {
  return base64Source(url) ?? { type: 'url', url };
}

function documentSource({ source }: DocumentPart): object {
  if ('text' in source) return textSource(source.text);
  if ('fileId' in source) return { type: 'file', file_id: source.fileId };
  const bytes = base64Source(source.url);
  if (!bytes) return { type: 'url', url: source.url };
  // Anthropic takes only PDFs as bytes; a text document is sent as plain text.
  if (!bytes.media_type.startsWith('text/')) return bytes;
  return textSource(Buffer.from(bytes.data, 'base64').toString('utf8'));
}

function textSource(data: string): object {
  return { type: 'text', media_type: 'text/plain', data };
}
