/** What a model is told where nothing else holds it to JSON; a schema of null is any object's. */
export function jsonInstruction(schema: object | null, start = 'Answer'): string {
  const only = `${start} only with a JSON object, without any other text.`;
  return schema === null
    ? only
    : `${only} It satisfies this JSON Schema:\n${JSON.stringify(schema)}`;
}
