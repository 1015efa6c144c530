import { fieldsOf, itemsOf, textOf } from '../../core/json.ts';

/** The addresses of pictures that came with earlier answers, as clients hand them back. */
export function madePictures(messages: readonly object[]): readonly string[] {
  const found: string[] = [];
  for (const message of messages) {
    if (!('images' in message)) continue;
    for (const image of itemsOf(message.images)) {
      found.push(textOf(fieldsOf(fieldsOf(image).image_url).url));
    }
  }
  return found;
}
