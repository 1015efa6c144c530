/**
 * A conversation may have begun with another provider. Whatever that provider left in it and
 * OpenAI would refuse is taken out. If there is nothing to take out, the same list is returned.
 */
import { sameIfUnchanged } from '../ask/body/same-list.ts';
import type { Images } from '../dialect.ts';
import {
  type AnyItem,
  type AnyPart,
  isKnownItem,
  isKnownPart,
  isMessage,
  isResult,
} from './input-items.ts';
import { ownReasoning } from './reasoning-signature.ts';
import type { ResponsesBody } from './request-schema.ts';
import { ownCallId } from './write-items.ts';

export function mendInput(input: ResponsesBody['input'], images: Images): ResponsesBody['input'] {
  if (typeof input === 'string') return input;
  const mended = input.map((item) => mendItem(item, images));
  const kept = mended.filter((item) => item !== undefined);
  if (kept.length === input.length) return sameIfUnchanged(input, kept);
  // By an item's id OpenAI knows that a thought belongs before it, and refuses it without that.
  return kept.map((item) => ('id' in item ? { ...item, id: undefined } : item));
}

function mendItem(item: AnyItem, images: Images): AnyItem | undefined {
  if (isKnownItem(item) && item.type === 'reasoning') return ownReasoning(item);
  const named = withOwnId(item);
  return images.size === 0 ? named : putImages(named, images);
}

function withOwnId(item: AnyItem): AnyItem {
  if (!('call_id' in item) || typeof item.call_id !== 'string') return item;
  const id = ownCallId(item.call_id);
  const named = { ...item, call_id: id };
  return id === item.call_id ? item : named;
}

function putImages(item: AnyItem, images: Images): AnyItem {
  if (isResult(item) && typeof item.output !== 'string') {
    const mended = { ...item, output: item.output.map((part) => inline(part, images)) };
    return mended;
  }
  if (isMessage(item) && typeof item.content !== 'string') {
    const mended = { ...item, content: item.content.map((part) => inline(part, images)) };
    return mended;
  }
  return item;
}

function inline(part: AnyPart, images: Images): AnyPart {
  if (!isKnownPart(part) || part.type !== 'input_image') return part;
  const found = images.get(part.image_url ?? '');
  const shown = { ...part, image_url: found ?? part.image_url };
  return found === undefined ? part : shown;
}
