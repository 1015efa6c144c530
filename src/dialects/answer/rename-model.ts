import { isText } from '../../core/json.ts';

/** Puts the alias wherever a JSON text has the upstream's name of the model as a value. */
export function renameModel(json: string, upstreamModel: unknown, alias: string): string {
  if (!isText(upstreamModel)) return json;
  return json.replaceAll(JSON.stringify(upstreamModel), JSON.stringify(alias));
}
