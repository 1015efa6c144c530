import type { ComponentChildren } from 'preact';

export interface Column<Row> {
  readonly title: string;
  readonly cell: (row: Row) => ComponentChildren;
  readonly isNumber?: boolean;
  /** The column that names the row. On phones, it becomes the heading of the card. */
  readonly isHead?: boolean;
}

/** Returns a right-aligned column. */
export function numberColumn<Row>(title: string, cell: Column<Row>['cell']): Column<Row> {
  return { title, cell, isNumber: true };
}

interface TableProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly rowKey: (row: Row) => string;
  readonly onRow?: (row: Row) => void;
}

/** A table, which becomes a stack of cards on phones. */
export function Table<Row>({ label, columns, rows, rowKey, onRow }: TableProps<Row>) {
  return (
    <div class="table-frame">
      <table aria-label={label}>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber ? 'number' : ''}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Row key={rowKey(row)} row={row} columns={columns} {...(onRow ? { onRow } : {})} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A row that opens on click. For keyboard users, one of its cells has a link or button. */
function Row<Data>({
  row,
  columns,
  onRow,
}: Pick<TableProps<Data>, 'columns' | 'onRow'> & { row: Data }) {
  const open = (event: MouseEvent) => {
    const isOnControl = event.target instanceof Element && event.target.closest('a, button');
    if (!isOnControl && getSelection()?.isCollapsed !== false) onRow?.(row);
  };
  return (
    <tr class={onRow ? 'clickable' : ''} {...(onRow ? { onClick: open } : {})}>
      {columns.map(({ title, cell, isNumber, isHead }) => (
        <td
          key={title}
          data-label={title}
          class={`${isNumber ? 'number' : ''} ${isHead ? 'head' : ''}`}
        >
          {cell(row)}
        </td>
      ))}
    </tr>
  );
}
