//! Tables, drawn for a terminal or written as Markdown. The first column is text, the others are numbers.

/// A table with one line of headings.
#[derive(Debug, Clone)]
pub struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(head: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            head: head.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Drawn with lines.
    pub fn boxed(&self) -> String {
        let widths = self.widths();
        let rule = |left: &str, middle: &str, right: &str| {
            let columns: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
            format!("{left}{}{right}", columns.join(middle))
        };
        let mut lines = vec![
            rule("┌", "┬", "┐"),
            self.padded(&self.head, &widths, "│"),
            rule("├", "┼", "┤"),
        ];
        lines.extend(self.rows.iter().map(|row| self.padded(row, &widths, "│")));
        lines.push(rule("└", "┴", "┘"));
        lines.join("\n")
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let widths = self.widths();
        let rule: Vec<String> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| match column {
                0 => format!("|{}", "-".repeat(width + 2)),
                _ => format!("|{}:", "-".repeat(width + 1)),
            })
            .collect();
        let mut lines = vec![self.padded(&self.head, &widths, "|"), format!("{}|", rule.concat())];
        lines.extend(self.rows.iter().map(|row| self.padded(row, &widths, "|")));
        lines.join("\n")
    }

    fn widths(&self) -> Vec<usize> {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        (0..self.head.len())
            .map(|column| {
                lines()
                    .filter_map(|line| line.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
            })
            .map(Option::unwrap_or_default)
            .collect()
    }

    fn padded(&self, cells: &[String], widths: &[usize], separator: &str) -> String {
        let mut line = separator.to_owned();
        for (column, width) in widths.iter().enumerate() {
            let cell = cells.get(column).map_or("", String::as_str);
            let padding = " ".repeat(width.saturating_sub(cell.chars().count()));
            line += &match column {
                0 => format!(" {cell}{padding} {separator}"),
                _ => format!(" {padding}{cell} {separator}"),
            };
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["what", "count"]);
        table.row(["a", "1"]);
        table.row(["longer", "1000000"]);
        assert_eq!(
            table.markdown(),
            "| what   |   count |\n|--------|--------:|\n| a      |       1 |\n| longer | 1000000 |"
        );
        let boxed = table.boxed();
        let widths: Vec<usize> = boxed.lines().map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{boxed}");
    }
}
