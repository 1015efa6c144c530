/**
 * `1 credit`, `2 credits`: a number and what it counts, for sentences of errors and notes. The
 * verb may come along: `counted(loss, 'credit was', 'credits were')`.
 */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
