//! As much of the query language as the rules need: its words.

/// One word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a keyword, a number or a parameter.
    Word(String),
    /// A text in quotes, without them.
    Text(String),
    /// Anything else, one character at a time.
    Sign(char),
}

impl Token {
    pub fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    pub fn is_sign(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }
}

/// Cuts a query into its words.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(char) = rest.next() {
        if char == '\'' || char == '"' {
            tokens.push(Token::Text(quoted(char, &mut rest)));
        } else if is_of_word(char) {
            let mut word = String::from(char);
            while let Some(next) = rest.next_if(|next| is_of_word(*next)) {
                word.push(next);
            }
            tokens.push(Token::Word(word));
        } else if !char.is_whitespace() {
            tokens.push(Token::Sign(char));
        }
    }
    tokens
}

fn is_of_word(char: char) -> bool {
    char.is_alphanumeric() || matches!(char, '_' | '@' | '$')
}

fn quoted(quote: char, rest: &mut impl Iterator<Item = char>) -> String {
    let mut text = String::new();
    while let Some(char) = rest.next() {
        match char {
            '\\' => text.extend(rest.next()),
            char if char == quote => break,
            char => text.push(char),
        }
    }
    text
}

/// Positions of a keyword. The name of a field, as in `c.top`, is none.
pub(super) fn keyword_at<'a>(tokens: &'a [Token], keyword: &'a str) -> impl Iterator<Item = usize> + 'a {
    (0..tokens.len()).filter(move |at| {
        let is_field = at.checked_sub(1).and_then(|before| tokens.get(before));
        tokens.get(*at).is_some_and(|token| token.is(keyword)) && !is_field.is_some_and(|token| token.is_sign('.'))
    })
}

/// Whether two keywords follow each other.
pub(super) fn pair_at(tokens: &[Token], first: &str, second: &str) -> Option<usize> {
    keyword_at(tokens, first).find(|at| tokens.get(at + 1).is_some_and(|token| token.is(second)))
}
